"""Budgets on both databases: what they admit, hold, count and tell."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from sqlalchemy import select

from accounting.budgets import (
    Standing,
    change_budget,
    create_budget,
    delete_budget,
    find_budget_differences,
    get_budget,
    list_budgets,
    standing_of,
)
from accounting.holds import Estimate, budget_warnings, require_left, reserve, settle
from accounting.ledger import Ledger, LedgerLine
from accounting.price_book import load_price_book
from accounting.price_sync import sync_price_book
from accounting.stages import Stage
from bench import budget_race
from core.errors import BudgetExceeded, BudgetHeld, InvalidInput, NotFound
from core.ids import BudgetId, CollectionId, JobId, KeyId, TenantId
from storage.collections import CollectionRepository
from storage.database import Database
from storage.jobs import JobQueue, JobRepository
from storage.models import BudgetHold, BudgetPeriod, Job, Tenant
from storage.paging import PageRequest
from tenancy.keys import issue_key

NOW = datetime(2026, 3, 28, 12, tzinfo=UTC)  # clocks of Berlin change in the night to come
OURS, THEIRS = TenantId("ten_ours"), TenantId("ten_theirs")
TEN = Estimate(tokens=10, most_tokens=25)
CENTS = Estimate(cost=Decimal("0.01"), most_cost=Decimal("0.04"))


class Books:
    """One tenant's jobs, as budgets see them, at a moment that the test sets."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.now = NOW
        self.numbers = iter(range(1000))

    def budget(
        self,
        limit: str = "100",
        *,
        unit: str = "tokens",
        period: str = "day",
        zone: str = "UTC",
        tenant: TenantId = OURS,
        key: KeyId | None = None,
        collection: CollectionId | None = None,
        warn_at: tuple[int, ...] = (),
    ) -> BudgetId:
        with self.database.write() as session:
            row = create_budget(
                session,
                tenant,
                limit=Decimal(limit),
                unit=unit,
                period=period,
                time_zone=zone,
                key_id=key,
                collection_id=collection,
                warn_at=warn_at,
                now=self.now,
            )
            return BudgetId(row.id)

    def begin(
        self,
        estimate: Estimate | None = None,
        *,
        tenant: TenantId = OURS,
        key: KeyId | None = None,
        collection: CollectionId | None = None,
    ) -> JobId:
        with self.database.write() as session:
            job = JobRepository(session, tenant).create(
                "answer",
                queue="interactive",
                payload={},
                collection_id=collection,
                key_id=key,
                max_attempts=3,
            )
            reserve(session, job, None if estimate is None else lambda: estimate, now=self.now)
            return JobId(job.id)

    def spend(self, job_id: JobId, tokens: int, *, billed: bool = True, source: str = "") -> None:
        with self.database.write() as session:
            job = session.get_one(Job, job_id)
            line = LedgerLine(
                source=source or f"work {next(self.numbers)}",
                attempt=1,
                stage=Stage.DECODE,
                model="m",
                model_revision="r",
                num_tokens=tokens,
                billed=billed,
                key_id=job.key_id,
                job_id=job.id,
                collection_id=job.collection_id,
            )
            Ledger().record(session, TenantId(job.tenant_id), [line], at=self.now)

    def end(self, job_id: JobId) -> None:
        with self.database.write() as session:
            settle(session, session.get_one(Job, job_id))

    def standing(self, budget_id: BudgetId) -> Standing:
        with self.database.read() as session:
            return standing_of(session, get_budget(session, None, budget_id), self.now)

    def figures(self, budget_id: BudgetId) -> tuple[int, int, int]:
        """Used, held, left."""
        standing = self.standing(budget_id)
        return standing.used, standing.held, standing.left

    def key(self, tenant: TenantId = OURS) -> KeyId:
        with self.database.write() as session:
            return issue_key(session, tenant, name="k", scopes=["ask"], now=NOW).key.id

    def collection(self, tenant: TenantId = OURS) -> CollectionId:
        with self.database.write() as session:
            return CollectionId(CollectionRepository(session, tenant).create(f"c {next(self.numbers)}").id)


@pytest.fixture
def books(database: Database) -> Books:
    with database.write() as session:
        session.add_all([Tenant(id=OURS, name="我们"), Tenant(id=THEIRS, name="theirs")])
        sync_price_book(session, load_price_book(), now=datetime(2026, 1, 1, tzinfo=UTC))
    return Books(database)


def test_a_job_holds_its_most_until_it_is_charged_and_settled(books: Books) -> None:
    budget = books.budget("100")
    job = books.begin(TEN)
    assert books.figures(budget) == (0, 25, 75)
    books.spend(job, 7)
    assert books.figures(budget) == (7, 18, 75)
    books.spend(job, 30)  # more than it held: the hold is spent, not negative
    assert books.figures(budget) == (37, 0, 63)
    books.end(job)
    assert books.figures(budget) == (37, 0, 63)


def test_money_is_counted_exactly(books: Books) -> None:
    budget = books.budget("0.05", unit="money")
    job = books.begin(CENTS)
    books.spend(job, 7)
    standing = books.standing(budget)
    assert (standing.amount(standing.used), standing.budget.currency) == ("0.0000056", "USD")
    assert standing.amount(standing.held) == "0.0399944"
    assert standing.amount(standing.left) == "0.01"


def test_what_usually_fits_is_admitted_and_holds_no_more_than_is_left(books: Books) -> None:
    budget = books.budget("40")
    books.begin(TEN)
    books.begin(TEN)
    assert books.figures(budget) == (0, 40, 0)
    with pytest.raises(BudgetHeld, match="40 held by what runs") as caught:
        books.begin(TEN)
    assert caught.value.context["retry_after_seconds"] == 2


def test_a_used_up_budget_refuses_with_its_figures_until_it_is_reset(books: Books) -> None:
    budget = books.budget("40", zone="Europe/Berlin")
    books.spend(books.begin(), 35)
    with pytest.raises(BudgetExceeded) as caught:
        books.begin(TEN)
    assert not isinstance(caught.value, BudgetHeld)
    assert caught.value.context == {
        "budget_id": budget,
        "unit": "tokens",
        "limit": "40",
        "used": "35",
        "held": "0",
        "reset_at": "2026-03-28T23:00:00+00:00",
        "retry_after_seconds": 11 * 3600,
    }
    with books.database.read() as session:
        assert session.scalars(select(BudgetHold)).all() == []


def test_a_new_day_begins_when_the_zone_s_clocks_say_so(books: Books) -> None:
    budget = books.budget("40", zone="Europe/Berlin")
    books.spend(books.begin(), 40)
    books.now = datetime(2026, 3, 28, 22, 59, 59, tzinfo=UTC)
    with pytest.raises(BudgetExceeded):
        books.begin(TEN)
    books.now = datetime(2026, 3, 28, 23, tzinfo=UTC)
    job = books.begin(TEN)
    books.now = datetime(2026, 3, 29, 21, 59, tzinfo=UTC)  # that day has 23 hours
    books.spend(job, 30)
    assert books.figures(budget)[0] == 30
    books.now = datetime(2026, 3, 29, 22, tzinfo=UTC)
    assert books.figures(budget) == (0, 0, 40)


def test_a_hold_lasts_into_the_next_period_and_is_charged_there(books: Books) -> None:
    budget = books.budget("40")
    job = books.begin(TEN)
    books.now += timedelta(days=1)
    assert books.figures(budget) == (0, 25, 15)
    books.spend(job, 5)
    assert books.figures(budget) == (5, 20, 15)


def test_only_what_a_budget_covers_counts(books: Books) -> None:
    key, collection = books.key(), books.collection()
    whole, of_key = books.budget("1000"), books.budget("50", key=key)
    of_collection = books.budget("50", collection=collection)
    books.spend(books.begin(key=key), 1)
    books.spend(books.begin(collection=collection), 2)
    books.spend(books.begin(key=key, collection=collection), 4)
    books.spend(books.begin(), 8)
    used = [books.figures(each)[0] for each in (whole, of_key, of_collection)]
    assert used == [15, 5, 6]
    books.spend(books.begin(key=key), 45)
    books.begin(TEN, collection=collection)
    with pytest.raises(BudgetExceeded, match=of_key):
        books.begin(TEN, key=key)


def test_tenants_neither_share_nor_see_each_other_s_budgets(books: Books) -> None:
    budget = books.budget("40")
    books.spend(books.begin(tenant=THEIRS), 1000)
    books.begin(Estimate(1000, 1000), tenant=THEIRS)
    assert books.figures(budget) == (0, 0, 40)
    with books.database.read() as session:
        assert list_budgets(session, THEIRS, PageRequest()).items == []
        with pytest.raises(NotFound):
            get_budget(session, THEIRS, budget)
    with pytest.raises(NotFound):
        books.budget(key=books.key(THEIRS))
    with pytest.raises(NotFound):
        books.budget(collection=books.collection(THEIRS))


def test_burned_lines_and_repeated_ones_are_not_counted(books: Books) -> None:
    budget = books.budget("100")
    job = books.begin()
    books.spend(job, 50, billed=False)
    books.spend(job, 7, source="once")
    books.spend(job, 7, source="once")
    assert books.figures(budget)[0] == 7


def test_what_was_used_before_a_budget_was_made_counts(books: Books) -> None:
    books.spend(books.begin(), 30)
    books.now += timedelta(hours=1)
    daily, total = books.budget("100"), books.budget("100", period="total")
    assert books.figures(daily) == books.figures(total) == (30, 0, 70)
    books.spend(books.begin(), 5)
    books.now += timedelta(days=1)
    books.spend(books.begin(), 1)
    assert (books.figures(daily)[0], books.figures(total)[0]) == (1, 36)
    with books.database.write() as session:
        assert list(find_budget_differences(session, now=books.now)) == []


def test_a_budget_lowered_below_what_is_used_lets_nothing_begin_and_says_so(books: Books) -> None:
    budget = books.budget("100")
    running = books.begin(TEN)
    books.spend(running, 20)
    with books.database.write() as session:
        lowered = change_budget(session, get_budget(session, OURS, budget), limit=Decimal(10), now=books.now)
        assert (lowered.state, lowered.left, lowered.percent) == ("exhausted", 0, 200)
    with pytest.raises(BudgetExceeded):
        books.begin(TEN)
    books.spend(running, 5)  # running work ends, and is billed
    assert books.figures(budget)[0] == 25


def test_a_long_job_stops_at_its_next_look_and_not_for_its_own_hold(books: Books) -> None:
    books.budget("40")
    job = books.begin(Estimate(tokens=30, most_tokens=40))
    with books.database.write() as session:
        claimed = JobQueue(session).claim_job(job, "w", lease=timedelta(seconds=10))
        assert claimed is not None
        require_left(session, claimed, now=books.now)
    books.spend(job, 40)
    with books.database.read() as session, pytest.raises(BudgetExceeded):
        require_left(session, claimed, now=books.now)


def test_a_second_reserve_replaces_what_a_job_holds(books: Books) -> None:
    budget = books.budget("100")
    job = books.begin(TEN)
    with books.database.write() as session:
        reserve(session, session.get_one(Job, job), lambda: Estimate(50, 80), now=books.now)
    assert books.figures(budget) == (0, 80, 20)


def test_deleting_a_budget_frees_what_it_limited(books: Books) -> None:
    budget = books.budget("10")
    job = books.begin(TEN)
    books.spend(job, 10)
    with books.database.write() as session:
        delete_budget(session, get_budget(session, OURS, budget))
    books.end(books.begin(TEN))
    books.end(job)
    with books.database.read() as session:
        assert session.scalars(select(BudgetPeriod)).all() == []


def test_thresholds_are_told_once_a_period_and_noted_for_those_who_begin(books: Books) -> None:
    budget = books.budget("100", warn_at=(50, 80))

    def told() -> int:
        with books.database.read() as session:
            return session.scalars(select(BudgetPeriod.told_percent)).all()[-1]

    seen = []
    for tokens in (49, 1, 1, 40, 9):
        books.spend(books.begin(), tokens)
        seen.append((told(), books.standing(budget).state))
    assert seen == [(0, "open"), (50, "warning"), (50, "warning"), (80, "warning"), (100, "exhausted")]
    with books.database.write() as session:
        change_budget(session, get_budget(session, OURS, budget), limit=Decimal(180), now=books.now)
    assert told() == 50
    with books.database.write() as session:
        job = JobRepository(session, OURS).create(
            "answer", queue="interactive", payload={}, collection_id=None, key_id=None, max_attempts=1
        )
        reserve(session, job, now=books.now)
        assert [each.budget.id for each in budget_warnings(session)] == [budget]


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit": "-1"},
        {"limit": "1e30"},
        {"limit": "NaN"},
        {"limit": "0.5"},
        {"limit": "0.00000000001", "unit": "money"},
        {"zone": "Europe/Atlantis"},
        {"warn_at": (0,)},
        {"warn_at": (100,)},
    ],
)
def test_absurd_budgets_are_refused(books: Books, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        books.budget(**wrong)  # type: ignore[arg-type]


def test_a_limit_of_nothing_lets_nothing_begin(books: Books) -> None:
    assert books.standing(books.budget("0")).state == "exhausted"
    with pytest.raises(BudgetExceeded):
        books.begin()


def test_a_counter_that_is_not_the_ledger_s_sum_is_found(books: Books) -> None:
    budget = books.budget("100")
    books.spend(books.begin(), 30)
    with books.database.write() as session:
        session.scalars(select(BudgetPeriod)).one().used = 29
        session.flush()
        (difference,) = find_budget_differences(session, now=books.now, mend=True)
    assert (difference.budget_id, difference.counted, difference.on_ledger) == (budget, 29, 30)
    assert books.figures(budget)[0] == 30


def test_many_who_ask_at_once_pass_the_limit_by_less_than_one_hold(database: Database) -> None:
    race = budget_race.race(database, num_threads=32)
    assert race.overshoot_holds < 1
    assert race.on_ledger > budget_race.LIMIT - budget_race.TYPICAL  # nobody was refused too early
    assert (race.used, race.held) == (race.on_ledger, 0)
    assert race.num_answered > 5
