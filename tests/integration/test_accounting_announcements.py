from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import select

from accounting.ledger import Ledger, LedgerLine
from accounting.price_announcements import announce_price, withdraw_price
from accounting.price_book import PriceBook, PriceKey
from accounting.price_list import list_prices
from accounting.price_sync import PriceChanges, sync_price_book
from accounting.price_table import price_at
from accounting.stages import Rate, Stage
from core.errors import Conflict, InvalidInput, LongleafError, Misconfigured, NotFound
from core.ids import KeyId, TenantId
from storage.database import Database
from storage.models import LedgerEntry, Price, Tenant

JANUARY, MAY, JUNE = (datetime(2026, month, 1, tzinfo=UTC) for month in (1, 5, 6))
APRIL = datetime(2026, 4, 1, tzinfo=UTC)
OURS, THEIRS = TenantId("ten_ours"), TenantId("ten_theirs")
BASE = {PriceKey("", "*", Stage.DECODE, JANUARY): Decimal(1)}


@pytest.fixture(autouse=True)
def _house(database: Database) -> None:
    with database.write() as session:
        session.add_all([Tenant(id=OURS, name="我们"), Tenant(id=THEIRS, name="theirs")])
    sync(database)


def sync(database: Database, more: dict[PriceKey, Decimal] | None = None) -> PriceChanges:
    with database.write() as session:
        return sync_price_book(session, PriceBook("USD", BASE | (more or {})), now=APRIL)


def announce(database: Database, **given: Any) -> Price:
    with database.write() as session:
        return announce_price(
            session,
            **{"model": "m", "stage": "decode", "price": Decimal(3), "effective_from": MAY} | given,
            now=APRIL,
            announced_by=KeyId("key_1"),
        )


def price(database: Database, moment: datetime, *, revision: str = "", tenant_id: TenantId = OURS) -> Decimal:
    with database.read() as session:
        found = price_at(session, "m", Stage.DECODE, moment, tenant_id=tenant_id, revision=revision)
    return found.price_per_million


def test_an_announced_price_holds_from_its_moment_and_outlives_a_restart(database: Database) -> None:
    announce(database)
    assert sync(database) == PriceChanges(0, 0, 0)
    assert (price(database, MAY - timedelta(seconds=1)), price(database, MAY)) == (1, 3)


def test_of_the_tenant_then_of_the_revision_then_of_the_model_then_of_any(database: Database) -> None:
    announce(database, price=Decimal(2))
    announce(database, price=Decimal(3), revision="r1")
    assert price(database, MAY, revision="r1") == 3
    assert price(database, MAY, revision="r2") == 2
    announce(database, price=Decimal(4), model="*", tenant_id=OURS)
    assert price(database, MAY, revision="r1") == 4
    assert price(database, MAY, revision="r1", tenant_id=THEIRS) == 3


def test_a_line_has_the_price_of_its_revision(database: Database) -> None:
    announce(database, revision="r1", price=Decimal(5))
    line = LedgerLine(
        source="a", attempt=1, stage=Stage.DECODE, model="m", model_revision="r1", num_tokens=10
    )
    with database.write() as session:
        (entry,) = Ledger().record(session, OURS, [line], at=MAY)
    assert entry.price_per_million == 5


def test_true_cost_is_the_time_at_the_rate_of_the_moment_and_unknown_without_one(database: Database) -> None:
    announce(database, stage="engine_hour", model="*", price=Decimal("7.2"))
    line = LedgerLine(
        source="a",
        attempt=1,
        stage=Stage.DECODE,
        model="m",
        model_revision="r",
        num_tokens=10,
        engine_seconds=1.5,
    )
    with database.write() as session:
        (before,) = Ledger().record(session, OURS, [line], at=APRIL)
        (after,) = Ledger().record(session, OURS, [line.__class__(**_fields(line) | {"attempt": 2})], at=MAY)
    assert before.engine_cost is None
    assert after.engine_cost == Decimal("0.003")
    with database.read() as session:
        assert session.scalars(select(LedgerEntry.engine_cost).order_by(LedgerEntry.attempt)).all() == [
            None,
            Decimal("0.003"),
        ]


def _fields(line: LedgerLine) -> dict[str, Any]:
    return {name: getattr(line, name) for name in line.__dataclass_fields__}


@pytest.mark.parametrize(
    ("given", "kind", "complaint"),
    [
        ({"effective_from": APRIL}, InvalidInput, "which has passed"),
        ({"effective_from": datetime(2026, 5, 1)}, InvalidInput, "no time zone"),
        ({"price": Decimal("-0.1")}, InvalidInput, "negative"),
        ({"price": Decimal("100000.1")}, InvalidInput, "above 100000"),
        ({"price": Decimal("0.00001")}, InvalidInput, "more than 4 decimal places"),
        ({"price": Decimal("NaN")}, InvalidInput, "not a number"),
        ({"stage": "think"}, InvalidInput, "unknown stage 'think'"),
        ({"model": "*", "revision": "r"}, InvalidInput, "is of no model"),
        ({"stage": "engine_hour", "tenant_id": OURS}, InvalidInput, "no price of a tenant's own"),
        ({"currency": "CNY"}, InvalidInput, "is in CNY, all others are in USD"),
        ({"tenant_id": TenantId("ten_none")}, NotFound, "no tenant ten_none"),
    ],
)
def test_a_price_that_makes_no_sense_is_refused(
    database: Database, given: dict[str, Any], kind: type[LongleafError], complaint: str
) -> None:
    with pytest.raises(kind, match=complaint):
        announce(database, **given)


def test_two_prices_for_the_same_from_the_same_moment_are_refused(database: Database) -> None:
    announce(database)
    with pytest.raises(Conflict, match="There is a price for decode of model 'm' from 2026-05-01 already, 3"):
        announce(database, price=Decimal(4))


def test_the_book_may_take_an_announcement_over_and_not_contradict_it(database: Database) -> None:
    announced = announce(database)
    key = PriceKey("", "m", Stage.DECODE, MAY)
    with pytest.raises(Misconfigured, match="was announced as 3; the price book says 4"):
        sync(database, {key: Decimal(4)})
    assert sync(database, {key: Decimal(3)}) == PriceChanges(0, 0, 0)
    assert sync(database) == PriceChanges(0, 0, 1)
    with database.read() as session:
        assert session.get(Price, announced.id) is None


def test_only_an_announcement_that_does_not_hold_yet_is_withdrawn(database: Database) -> None:
    announced = announce(database)
    with database.read() as session:
        booked = session.scalars(select(Price.id).where(Price.announced_by.is_(None))).one()
    with pytest.raises(Conflict, match="has held since"), database.write() as session:
        withdraw_price(session, announced.id, now=MAY)
    with pytest.raises(Conflict, match="the price book's"), database.write() as session:
        withdraw_price(session, booked, now=APRIL)
    with database.write() as session:
        withdraw_price(session, announced.id, now=APRIL)
    assert price(database, MAY) == 1


def test_what_applies_at_a_moment_is_shown_without_what_is_beaten_or_the_operators(
    database: Database,
) -> None:
    announce(database)
    announce(database, stage="engine_hour", model="*")
    announce(database, model="m", tenant_id=OURS, price=Decimal(2), effective_from=JUNE)
    announce(database, model="m", tenant_id=THEIRS, price=Decimal(9))
    with database.read() as session:
        shown = [
            [
                (row.model, row.stage, row.price, row.tenant_id)
                for row in list_prices(session, OURS, at=moment)
            ]
            for moment in (APRIL, MAY, JUNE)
        ]
        assert Rate.ENGINE_HOUR.value in {row.stage for row in list_prices(session, OURS, with_rates=True)}
    general = ("*", "decode", Decimal(1), "")
    assert shown[0] == [general]
    assert shown[1] == [general, ("m", "decode", Decimal(3), "")]
    assert shown[2] == [general, ("m", "decode", Decimal(2), OURS)]


def test_a_book_without_a_price_in_force_is_refused(database: Database) -> None:
    later = PriceBook("USD", {PriceKey("", "*", Stage.DECODE, MAY): Decimal(1)})
    with pytest.raises(Misconfigured, match="no price for decode of every"), database.write() as session:
        sync_price_book(session, later, now=APRIL)
