"""Invoices that sum, what cost most, and what caching saved."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count

import pytest

from accounting.corrections import correct_entry
from accounting.cost_pages import render_costs, render_invoice
from accounting.invoices import Invoice, make_invoice
from accounting.ledger import Ledger, LedgerLine
from accounting.price_book import load_price_book
from accounting.price_sync import sync_price_book
from accounting.report_formats import invoice_as_csv, invoice_as_json
from accounting.reports import cost_report
from accounting.savings import find_savings
from accounting.stages import Stage
from accounting.top_costs import top_costs
from core.errors import InvalidInput
from core.ids import TenantId
from storage.database import Database
from storage.models import Answer, Collection, Document, Job, LedgerEntry, Tenant, UploadedFile

OURS = TenantId("ten_ours")
JUNE = datetime(2026, 6, 10, tzinfo=UTC)
AFTERWARDS = datetime(2026, 9, 1, tzinfo=UTC)
_sources = count(1)


@pytest.fixture
def priced(database: Database) -> Database:
    with database.write() as session:
        session.add(Tenant(id=OURS, name="我们"))
        sync_price_book(session, load_price_book(), now=JUNE)
    return database


def record(
    database: Database,
    stage: Stage = Stage.DECODE,
    num_tokens: int = 1_000,
    *,
    at: datetime = JUNE,
    **fields: object,
) -> LedgerEntry:
    values = {"source": f"src_{next(_sources)}", "attempt": 1, "model": "m", "model_revision": "r"} | fields
    with database.write() as session:
        line = LedgerLine(stage=stage, num_tokens=num_tokens, **values)  # type: ignore[arg-type]
        return Ledger().record(session, OURS, [line], at=at)[0]


def invoice(
    database: Database, month: str = "2026-06", *, zone: str = "UTC", now: datetime = AFTERWARDS
) -> Invoice:
    with database.read() as session:
        return make_invoice(session, OURS, month, time_zone=zone, now=now)


def test_an_invoices_lines_and_its_rounding_sum_to_its_total(priced: Database) -> None:
    record(priced, num_tokens=1_234_567)
    record(priced, num_tokens=1)
    record(priced, Stage.EMBED, 7_654_321, document_id="doc_1")
    record(priced, num_tokens=10**9, billed=False)
    found = invoice(priced)
    assert [(line.stage, line.num_tokens) for line in found.lines] == [
        ("decode", 1_234_568),
        ("embed", 7_654_321),
    ]
    for line in found.lines:
        assert line.amount == line.num_tokens * line.price_per_million / 1_000_000
    assert sum(line.amount for line in found.lines) + found.rounding == found.total
    assert found.total == round(found.total, 2)
    assert found.burned.burned_tokens == 10**9
    *lines, rounding, total = list(csv.reader(io.StringIO(invoice_as_csv(found))))[1:]
    assert sum(Decimal(row[-3]) for row in [*lines, rounding]) == Decimal(total[-3])


def test_a_months_invoice_stays_what_it_is_and_a_correction_is_of_its_own_month(priced: Database) -> None:
    entry = record(priced)
    before = invoice(priced)
    with priced.write() as session:
        correct_entry(
            session, entry.id, reason="counted twice", num_tokens=-400, now=JUNE + timedelta(days=40)
        )
    assert invoice(priced) == before
    assert invoice(priced).number == before.number
    (line,) = invoice(priced, "2026-07").lines
    assert (line.is_correction, line.num_tokens) == (True, -400)
    assert line.amount < 0


def test_an_open_month_is_not_final_and_another_amount_has_another_number(priced: Database) -> None:
    record(priced)
    first = invoice(priced, now=JUNE)
    record(priced)
    second = invoice(priced, now=JUNE)
    assert (first.is_final, second.is_final, invoice(priced).is_final) == (False, False, True)
    assert first.number != second.number
    assert first.number.startswith("2026-06-")


def test_months_are_those_of_the_zone(priced: Database) -> None:
    record(priced, at=datetime(2026, 5, 31, 17, tzinfo=UTC))
    assert invoice(priced, zone="Asia/Shanghai").lines
    assert not invoice(priced).lines


@pytest.mark.parametrize("month", ["2026", "2026-13", "0000-01", "2026-6", "june", ""])
def test_what_is_no_month_is_refused(priced: Database, month: str) -> None:
    with pytest.raises(InvalidInput, match="There is no month"):
        invoice(priced, month)


def test_what_cost_most_comes_first_with_its_name(priced: Database) -> None:
    with priced.write() as session:
        session.add(Collection(id="col_1", tenant_id=OURS, name="c"))
        session.flush()
        session.add(
            Document(
                id="doc_1",
                tenant_id=OURS,
                collection_id="col_1",
                name="合同.pdf",
                content_hash="h",
                num_bytes=1,
            )
        )
        session.add(Job(id="job_1", tenant_id=OURS, kind="answer", queue="interactive", max_attempts=1))
        session.add(Job(id="job_2", tenant_id=OURS, kind="evaluate", queue="offline", max_attempts=1))
        session.flush()
        session.add(
            Answer(
                id="ans_1",
                tenant_id=OURS,
                collection_id="col_1",
                job_id="job_1",
                question="谁？",
                parameters={},
            )
        )
    record(priced, num_tokens=10, document_id="doc_gone")
    record(priced, num_tokens=90, document_id="doc_1")
    record(priced, num_tokens=50, job_id="job_1")
    record(priced, num_tokens=70, job_id="job_2")
    with priced.read() as session:
        found = top_costs(session, OURS)
    assert [(each.id, each.text) for each in found.documents] == [("doc_1", "合同.pdf"), ("doc_gone", "")]
    assert [(each.id, each.text) for each in found.questions] == [("ans_1", "谁？")]


def test_the_cache_saved_the_difference_of_both_prices(priced: Database) -> None:
    record(priced, Stage.PREFILL_UNCACHED, 500_000)
    uncached = record(priced, Stage.PREFILL_UNCACHED, 1).price_per_million
    cached = record(priced, Stage.PREFILL_CACHED, 1_000_000)
    with priced.read() as session:
        found = find_savings(session, OURS)
    assert found.cached_tokens == 1_000_000
    assert found.saved == uncached - cached.price_per_million > 0


def test_what_was_embedded_before_is_saved_at_the_price_of_embedding_it(priced: Database) -> None:
    price = record(priced, Stage.EMBED, 1).price_per_million
    with priced.write() as session:
        session.add(Collection(id="col_1", tenant_id=OURS, name="c"))
        session.add(Job(id="job_1", tenant_id=OURS, kind="ingest", queue="ingest", max_attempts=1))
        session.flush()
        for position, moment in enumerate([JUNE, JUNE + timedelta(days=1), AFTERWARDS]):
            session.add(
                UploadedFile(
                    id=f"file_{position}",
                    tenant_id=OURS,
                    collection_id="col_1",
                    job_id="job_1",
                    position=position,
                    name="a.md",
                    content_hash="h",
                    num_bytes=1,
                    reused_tokens=500_000,
                    reused_model="m",
                    reused_revision="r",
                    created_at=moment,
                )
            )
    with priced.read() as session:
        found = find_savings(session, OURS, start=JUNE, end=AFTERWARDS)
    assert (found.reused_tokens, found.reused_cost, found.saved) == (1_000_000, price, price)
    assert price > 0


def test_pages_escape_what_people_wrote_and_say_the_same_in_both_languages(priced: Database) -> None:
    record(priced, model="<script>", document_id="doc_1")
    with priced.read() as session:
        report = cost_report(session, OURS, group_by=["day", "model"])
        page = render_costs(
            report, top_costs(session, OURS), find_savings(session, OURS), tenant=OURS, language="zh"
        )
    assert "<script>" not in page
    assert "费用" in page
    assert page.count("<svg") == 2
    found = invoice(priced)
    assert found.number in render_invoice(found, tenant=OURS)
    assert invoice_as_json(found)["total"] == str(found.total)
