from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from sqlalchemy import func, select

from accounting.ledger import Ledger, LedgerLine
from accounting.price_book import PriceBook, PriceKey, load_price_book
from accounting.price_sync import PriceChanges, sync_price_book
from accounting.price_table import price_at
from accounting.stages import Stage
from core.errors import Misconfigured
from core.ids import TenantId
from storage.database import Database
from storage.models import Price, Tenant

JANUARY, MARCH, MAY = (datetime(2026, month, 1, tzinfo=UTC) for month in (1, 3, 5))
APRIL = datetime(2026, 4, 1, tzinfo=UTC)
OURS, THEIRS = TenantId("ten_ours"), TenantId("ten_theirs")
UNCHANGED = PriceChanges(0, 0, 0)


@pytest.fixture(autouse=True)
def _tenants(database: Database) -> None:
    with database.write() as session:
        session.add_all([Tenant(id=OURS, name="我们"), Tenant(id=THEIRS, name="theirs")])


def book(*decode_prices: tuple[str, str, datetime, str], currency: str = "USD") -> PriceBook:
    """A book of decode prices: (tenant, model, from, price), over a list price of 1."""
    prices = {PriceKey("", "*", Stage.DECODE, JANUARY): Decimal(1)}
    for tenant, model, start, price in decode_prices:
        prices[PriceKey(tenant, model, Stage.DECODE, start)] = Decimal(price)
    return PriceBook(currency, prices)


def sync(database: Database, prices: PriceBook, *, now: datetime = APRIL) -> PriceChanges:
    with database.write() as session:
        return sync_price_book(session, prices, now=now)


def price(database: Database, model: str, moment: datetime, tenant_id: TenantId = OURS) -> Decimal:
    with database.read() as session:
        return price_at(session, model, Stage.DECODE, moment, tenant_id=tenant_id).price_per_million


def use(database: Database, model: str, at: datetime, tenant_id: TenantId = OURS) -> None:
    line = LedgerLine(
        source=f"ans_{model}_{at}",
        attempt=1,
        stage=Stage.DECODE,
        model=model,
        model_revision="r",
        num_tokens=5,
    )
    with database.write() as session:
        Ledger().record(session, tenant_id, [line], at=at)


def test_syncing_the_packaged_book_twice_changes_nothing(database: Database) -> None:
    packaged = load_price_book()
    assert sync(database, packaged) == PriceChanges(len(packaged.prices), 0, 0)
    assert sync(database, packaged) == UNCHANGED


def test_processes_that_sync_at_once_write_each_price_once(database: Database) -> None:
    packaged = load_price_book()
    with ThreadPoolExecutor(4) as pool:
        changes = list(pool.map(lambda _: sync(database, packaged), range(4)))
    assert sorted(change.added for change in changes) == [0, 0, 0, len(packaged.prices)]
    with database.read() as session:
        assert session.scalar(select(func.count(Price.id))) == len(packaged.prices)


def test_the_tenants_own_price_beats_the_models_own_and_that_the_list(database: Database) -> None:
    sync(database, book(("", "m", JANUARY, "2"), (OURS, "*", JANUARY, "3"), (OURS, "m", MARCH, "4")))
    assert price(database, "other", APRIL, THEIRS) == 1
    assert price(database, "m", APRIL, THEIRS) == 2
    assert price(database, "m", JANUARY) == 3
    assert price(database, "other", APRIL) == 3
    assert price(database, "m", APRIL) == 4


def test_a_price_holds_from_its_date_until_the_next(database: Database) -> None:
    sync(database, book(("", "m", MARCH, "2"), ("", "m", MAY, "3")))
    assert price(database, "m", JANUARY) == 1
    assert price(database, "m", MARCH) == 2
    assert price(database, "m", APRIL) == 2
    assert price(database, "m", MAY) == 3


def test_a_moment_before_all_prices_is_an_error_that_says_what_to_do(database: Database) -> None:
    sync(database, book())
    with pytest.raises(Misconfigured, match=r"No price for decode of model 'm'.*earlier effective_from"):
        price(database, "m", datetime(2025, 12, 31, tzinfo=UTC))


def test_prices_to_come_and_prices_never_used_follow_the_book(database: Database) -> None:
    sync(database, book(("", "m", JANUARY, "2"), ("", "n", MAY, "3")))
    use(database, "other", APRIL)
    assert sync(database, book(("", "m", JANUARY, "2.5"))) == PriceChanges(0, 1, 1)
    assert price(database, "m", APRIL) == Decimal("2.5")
    assert price(database, "n", MAY) == 1


@pytest.mark.parametrize(
    ("rewritten", "verb"),
    [
        (book(("", "m", JANUARY, "9")), "change"),
        (book(), "remove"),
        (book(("", "m", JANUARY, "2"), ("", "m", MARCH, "3")), "add"),
        (book(("", "m", JANUARY, "2"), (OURS, "*", MARCH, "3")), "add"),
    ],
)
def test_a_book_that_rewrites_history_is_refused_and_nothing_changes(
    database: Database, rewritten: PriceBook, verb: str
) -> None:
    before = book(("", "m", JANUARY, "2"))
    sync(database, before)
    use(database, "m", APRIL)
    with pytest.raises(Misconfigured, match=f"would {verb} the price for decode of model"):
        sync(database, rewritten, now=MAY)
    assert sync(database, before) == UNCHANGED


def test_a_new_price_from_a_later_date_is_taken_and_old_lines_keep_theirs(database: Database) -> None:
    sync(database, book(("", "m", JANUARY, "2")))
    use(database, "m", APRIL)
    assert sync(database, book(("", "m", JANUARY, "2"), ("", "m", MAY, "3"))) == PriceChanges(1, 0, 0)
    assert price(database, "m", APRIL) == 2
    assert price(database, "m", MAY) == 3


def test_the_currency_may_change_only_while_the_ledger_is_empty(database: Database) -> None:
    sync(database, book())
    assert sync(database, book(currency="CNY")) == UNCHANGED
    use(database, "m", APRIL)
    with pytest.raises(Misconfigured, match="in USD, but the ledger has lines in CNY"):
        sync(database, book(currency="USD"))


def test_prices_of_an_unknown_tenant_are_refused(database: Database) -> None:
    with pytest.raises(Misconfigured, match="tenant ten_nobody, who does not exist"):
        sync(database, book(("ten_nobody", "*", JANUARY, "2")))
