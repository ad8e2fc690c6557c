from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.exc import DBAPIError

from accounting.corrections import correct_entry
from accounting.ledger import Ledger, LedgerLine
from accounting.price_book import load_price_book
from accounting.price_sync import sync_price_book
from accounting.reports import cost_report
from accounting.stages import Stage
from core.errors import Conflict, InvalidInput, NotFound
from core.ids import TenantId
from storage.database import Database
from storage.models import LedgerEntry, Tenant

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
OURS = TenantId("ten_ours")


@pytest.fixture
def entry_id(database: Database) -> str:
    """Of 1,000 decoded tokens, 0.0008 USD, which took the machine an hour: 0.4 USD."""
    line = LedgerLine(
        source="ans_1",
        attempt=1,
        stage=Stage.DECODE,
        model="m",
        model_revision="r",
        num_tokens=1000,
        engine_seconds=3600.0,
        key_id="key_1",
        collection_id="col_1",
    )
    with database.write() as session:
        session.add(Tenant(id=OURS, name="我们"))
        sync_price_book(session, load_price_book(), now=NOW)
        (entry,) = Ledger(clock=lambda: NOW).record(session, OURS, [line])
    return entry.id


def correct(
    database: Database,
    entry_id: str,
    *,
    num_tokens: int = 0,
    cost: Decimal | None = None,
    reason: str = "Counted twice.",
) -> LedgerEntry:
    with database.write() as session:
        return correct_entry(session, entry_id, reason=reason, num_tokens=num_tokens, cost=cost, now=NOW)


def sums(database: Database) -> tuple[int, Decimal]:
    with database.read() as session:
        report = cost_report(session, OURS)
    return report.total.num_tokens, report.total.cost


def test_a_correction_is_an_entry_that_makes_the_sums_right(database: Database, entry_id: str) -> None:
    made = correct(database, entry_id, num_tokens=-400)
    assert (made.corrects_id, made.reason, made.source) == (
        entry_id,
        "Counted twice.",
        f"{entry_id}/correction/1",
    )
    assert (made.key_id, made.collection_id, made.stage, made.billed) == ("key_1", "col_1", "decode", True)
    assert (made.engine_seconds, made.engine_cost) == (0.0, None)
    assert sums(database) == (600, Decimal("0.00048"))
    with database.read() as session:
        assert session.scalar(select(func.sum(LedgerEntry.engine_cost))) == Decimal("0.4")


def test_goodwill_takes_money_and_leaves_the_count(database: Database, entry_id: str) -> None:
    correct(database, entry_id, cost=Decimal("-0.0003"))
    assert sums(database) == (1000, Decimal("0.0005"))


def test_no_more_is_taken_than_is_left_and_no_more_given_back_than_was_taken(
    database: Database, entry_id: str
) -> None:
    correct(database, entry_id, num_tokens=-900)
    with pytest.raises(Conflict, match=r"100 of 1000 tokens and 0.00008 of 0.0008 USD are left"):
        correct(database, entry_id, num_tokens=-101)
    with pytest.raises(Conflict):
        correct(database, entry_id, num_tokens=901)
    with pytest.raises(Conflict):
        correct(database, entry_id, cost=Decimal("-0.00009"))
    correct(database, entry_id, num_tokens=900)
    assert sums(database) == (1000, Decimal("0.0008"))


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "nothing to correct"),
        ({"num_tokens": -1, "reason": "  "}, "needs a reason"),
        ({"cost": Decimal("-0.00000000001")}, "at most 10 decimal places"),
        ({"cost": Decimal("NaN")}, "at most 10 decimal places"),
    ],
)
def test_a_correction_of_nothing_or_without_a_reason_is_refused(
    database: Database, entry_id: str, given: dict[str, object], complaint: str
) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        correct(database, entry_id, **given)  # type: ignore[arg-type]


def test_what_is_corrected_is_an_entry_and_no_correction(database: Database, entry_id: str) -> None:
    made = correct(database, entry_id, num_tokens=-1)
    with pytest.raises(InvalidInput, match=f"is a correction itself. Correct {entry_id}"):
        correct(database, made.id, num_tokens=1)
    with pytest.raises(NotFound):
        correct(database, "led_none", num_tokens=-1)


@pytest.mark.parametrize(
    "change", ["reason = 'better'", "corrects_id = NULL", "engine_cost = 0", "engine_seconds = 0"]
)
def test_no_column_of_an_entry_can_be_changed(database: Database, entry_id: str, change: str) -> None:
    with pytest.raises(DBAPIError, match="append-only"), database.write() as session:
        session.execute(text(f"UPDATE ledger_entries SET {change} WHERE id = '{entry_id}'"))
