from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from threading import Barrier

import pytest
from sqlalchemy import delete, func, select, update

from accounting.ledger import Ledger, LedgerLine, generation_lines
from accounting.price_book import load_price_book
from accounting.price_sync import sync_price_book
from accounting.stages import Stage
from core.errors import Conflict, InvalidInput, Misconfigured
from core.ids import TenantId
from core.usage import TokenUsage
from storage.database import Database
from storage.models import LedgerEntry, Tenant

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
OURS, THEIRS = TenantId("ten_ours"), TenantId("ten_theirs")
LEDGER = Ledger(clock=lambda: NOW)
LINE = LedgerLine(source="ans_1", attempt=1, stage=Stage.DECODE, model="m", model_revision="r", num_tokens=7)


@pytest.fixture(autouse=True)
def _tenants(database: Database) -> None:
    with database.write() as session:
        session.add_all([Tenant(id=OURS, name="我们"), Tenant(id=THEIRS, name="theirs")])
        sync_price_book(session, load_price_book(), now=NOW)


def record(database: Database, *lines: LedgerLine, tenant_id: TenantId = OURS) -> list[LedgerEntry]:
    with database.write() as session:
        return LEDGER.record(session, tenant_id, lines)


def count(database: Database) -> int:
    with database.read() as session:
        return session.scalar(select(func.count(LedgerEntry.id))) or 0


def test_a_line_is_priced_exactly_when_it_is_written(database: Database) -> None:
    line = replace(LINE, key_id="key_1", job_id="job_1", collection_id="col_1", document_id="doc_1")
    record(database, replace(line, engine_seconds=0.25))
    with database.read() as session:
        entry = session.scalars(select(LedgerEntry)).one()
    assert entry.cost == Decimal("0.0000056")
    assert entry.price_per_million == Decimal("0.8")
    assert (entry.currency, entry.created_at, entry.billed) == ("USD", NOW, True)
    assert (entry.key_id, entry.job_id, entry.collection_id) == ("key_1", "job_1", "col_1")
    assert (entry.document_id, entry.engine_seconds, entry.num_tokens) == ("doc_1", 0.25, 7)


def test_cached_tokens_cost_the_cached_price_once(database: Database) -> None:
    usage = TokenUsage(prompt_tokens=1000, cached_tokens=600, completion_tokens=50)
    lines = generation_lines(usage, source="ans_1", attempt=1, model="m", model_revision="r")
    entries = record(database, *lines)
    assert (
        sum(entry.cost for entry in entries)
        == (400 * Decimal("0.20") + 600 * Decimal("0.05") + 50 * Decimal("0.80")) / 10**6
    )
    assert {entry.currency for entry in entries} == {"USD"}


def test_recording_again_writes_nothing_and_gives_what_was_written(database: Database) -> None:
    first = record(database, LINE, replace(LINE, stage=Stage.EMBED))
    again = record(database, replace(LINE, stage=Stage.EMBED), replace(LINE, num_tokens=9999))
    assert [entry.id for entry in again] == [entry.id for entry in reversed(first)]
    assert again[1].num_tokens == 7
    assert count(database) == 2


def test_each_attempt_has_a_line_of_its_own_and_burned_ones_are_nobodys_bill(database: Database) -> None:
    entries = record(database, replace(LINE, billed=False), replace(LINE, attempt=2))
    assert [(entry.attempt, entry.billed) for entry in entries] == [(1, False), (2, True)]
    assert {entry.cost for entry in entries} == {Decimal("0.0000056")}


def test_two_threads_that_record_at_once_write_one_line(database: Database) -> None:
    barrier = Barrier(2)

    def attempt(number: int) -> list[LedgerEntry]:
        barrier.wait()
        return record(database, *(replace(LINE, source=f"ans_{i}") for i in range(20)))

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(attempt, range(2))
    assert [entry.id for entry in first] == [entry.id for entry in second]
    assert count(database) == 20


def test_lines_of_zero_tokens_are_not_written(database: Database) -> None:
    assert record(database, replace(LINE, num_tokens=0)) == []
    assert count(database) == 0


def test_negative_counts_and_lines_of_one_identity_are_refused(database: Database) -> None:
    with pytest.raises(InvalidInput, match="ans_1 has -1 tokens of decode"):
        record(database, replace(LINE, num_tokens=-1))
    with pytest.raises(InvalidInput, match="two lines of decode in attempt 1"):
        record(database, LINE, replace(LINE, num_tokens=8))
    assert count(database) == 0


def test_what_a_generator_does_for_a_stage_is_a_line_for_each_price_and_model(database: Database) -> None:
    parts = (Stage.PREFILL_UNCACHED, Stage.PREFILL_CACHED, Stage.DECODE)
    lines = [replace(LINE, stage=Stage.CONDENSE, price_stage=part) for part in parts]
    other = replace(lines[0], model="n")
    entries = record(database, *lines, other)
    assert {entry.stage for entry in entries} == {"condense"}
    assert [entry.price_stage for entry in entries] == [*(part.value for part in parts), "prefill_uncached"]
    record(database, *lines, other)
    assert count(database) == 4


def test_a_line_before_all_prices_is_refused_and_nothing_is_written(database: Database) -> None:
    with pytest.raises(Misconfigured, match="No price for decode"), database.write() as session:
        LEDGER.record(session, OURS, [LINE], at=datetime(2020, 1, 1, tzinfo=UTC))
    assert count(database) == 0


def test_an_entry_can_be_neither_changed_nor_deleted(database: Database) -> None:
    record(database, LINE)
    with pytest.raises(Conflict, match="neither changed nor deleted"), database.write() as session:
        session.scalars(select(LedgerEntry)).one().num_tokens = 8
    with pytest.raises(Conflict), database.write() as session:
        session.delete(session.scalars(select(LedgerEntry)).one())
    with pytest.raises(Conflict), database.write() as session:
        session.execute(update(LedgerEntry).values(num_tokens=8))
    with pytest.raises(Conflict), database.write() as session:
        session.execute(delete(LedgerEntry.__table__))  # type: ignore[arg-type]
    with database.read() as session:
        assert session.scalars(select(LedgerEntry.num_tokens)).all() == [7]


def test_an_entry_set_to_what_it_holds_is_no_change(database: Database) -> None:
    record(database, LINE)
    with database.write() as session:
        session.scalars(select(LedgerEntry)).one().num_tokens = 7


def test_more_tokens_than_32_bits_count_are_exact(database: Database) -> None:
    (entry,) = record(database, replace(LINE, num_tokens=3_000_000_001))
    assert entry.cost == Decimal("2400.0000008")
