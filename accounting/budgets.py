"""Budgets: who may use how much in which period, and how much of it is gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.orm import Session

from accounting.budget_periods import Bounds, Period, bounds_of
from accounting.calendar import load_zone
from accounting.money import format_amount
from accounting.price_table import find_currency
from core.errors import InvalidInput, NotFound
from core.ids import BudgetId, CollectionId, KeyId, TenantId, new_id
from storage.collections import CollectionRepository
from storage.models import Budget, BudgetHold, BudgetPeriod, LedgerEntry
from storage.paging import Page, PageRequest, paginate
from storage.types import MONEY_SCALE
from tenancy.keys import get_key

MAX_LIMIT = Decimal(100_000_000)
"""Of money; tokens may be so many millions."""

EXHAUSTED_PERCENT = 100
_MAX_WARNINGS = 10


class Unit(StrEnum):
    """What a budget counts: billed tokens, or what they cost."""

    TOKENS = "tokens"
    MONEY = "money"


@dataclass(frozen=True, slots=True)
class Standing:
    """How a budget stands. Amounts are in the budget's whole units: see `amount`.

    `held` is what jobs that have not ended may still use. `reset_at` is None for a total.
    """

    budget: Budget
    used: int
    held: int
    bounds: Bounds

    @property
    def left(self) -> int:
        """What a new job may still have."""
        return max(0, self.budget.limit - self.used - self.held)

    @property
    def reset_at(self) -> datetime | None:
        return self.bounds.end

    @property
    def percent(self) -> int:
        """Of the limit, used."""
        return self.used * 100 // self.budget.limit if self.budget.limit else EXHAUSTED_PERCENT

    @property
    def state(self) -> str:
        """`open`; `warning` from the first threshold on; `exhausted`: nothing new begins."""
        if self.percent >= EXHAUSTED_PERCENT:
            return "exhausted"
        return "warning" if reached_threshold(self.budget, self.percent) else "open"

    def amount(self, units: int) -> str:
        """Every digit of it: tokens, or money in the budget's currency."""
        return str(units) if self.budget.unit == Unit.TOKENS else format_amount(_money(units))


@dataclass(frozen=True, slots=True)
class BudgetDifference:
    """A budget whose counter is not what the ledger's lines sum to."""

    budget_id: str
    counted: int
    on_ledger: int


def create_budget(
    session: Session,
    tenant_id: TenantId,
    *,
    limit: Decimal,
    unit: str,
    period: str,
    time_zone: str = "UTC",
    warn_at: Sequence[int] = (),
    key_id: KeyId | None = None,
    collection_id: CollectionId | None = None,
    now: datetime,
) -> Budget:
    """A new budget of the tenant, of one of its keys, or of one of its collections.

    What the ledger has for the period by now counts as used.

    Raises:
        InvalidInput: a limit that is negative, absurd, or finer than the ledger; an unknown zone; both
            a key and a collection; thresholds that are none.
        NotFound: the tenant has no such key, or no such collection.
    """
    if key_id is not None and collection_id is not None:
        raise InvalidInput(
            "A budget is of a key or of a collection, not of both.", remedy="Make two budgets: both hold."
        )
    if key_id is not None:
        get_key(session, tenant_id, key_id)
    if collection_id is not None:
        CollectionRepository(session, tenant_id).get(collection_id)
    zone = load_zone(time_zone)
    # A lock that any other change of this tenant's budgets waits for, where it has some.
    lock_budgets(session, tenant_id)
    budget = Budget(
        id=new_id("bud"),
        tenant_id=tenant_id,
        key_id=key_id,
        collection_id=collection_id,
        period=Period(period).value,
        unit=Unit(unit).value,
        currency=find_currency(session) if Unit(unit) is Unit.MONEY else "",
        limit=_whole(limit, Unit(unit)),
        warn_at=_thresholds(warn_at),
        time_zone=zone.key,
        created_at=now,
    )
    session.add(budget)
    session.flush()
    return budget


def change_budget(
    session: Session,
    budget: Budget,
    *,
    limit: Decimal | None = None,
    warn_at: Sequence[int] | None = None,
    now: datetime,
) -> Standing:
    """The budget with another limit or other thresholds.

    A limit below what is used is taken: nothing new begins, and what runs stops at its next look.

    Raises:
        InvalidInput: as `create_budget`.
    """
    lock_budgets(session, TenantId(budget.tenant_id))
    if limit is not None:
        budget.limit = _whole(limit, Unit(budget.unit))
    if warn_at is not None:
        budget.warn_at = _thresholds(warn_at)
    session.flush()
    standing = standing_of(session, budget, now)
    period = find_period(session, budget, standing.bounds)
    if period is not None:
        # Who changes a budget sees how it stands; they are told of what is reached from here on.
        period.told_percent = reached_threshold(budget, standing.percent)
        session.flush()
    return standing


def delete_budget(session: Session, budget: Budget) -> None:
    """Nothing is held or counted against it any more; jobs that it let begin go on."""
    lock_budgets(session, TenantId(budget.tenant_id))
    for table in (BudgetHold, BudgetPeriod):
        session.execute(delete(table).where(table.budget_id == budget.id))
    session.delete(budget)
    session.flush()


def get_budget(session: Session, tenant_id: TenantId | None, budget_id: BudgetId) -> Budget:
    """Raises `NotFound` for an unknown id, or another's than the tenant's (None: anybody's)."""
    found = session.scalar(select(Budget).where(Budget.id == budget_id, *_of_tenant(tenant_id)))
    if found is None:
        raise NotFound(
            f"There is no budget {budget_id}.", remedy="List yours with GET /v1/budgets.", budget_id=budget_id
        )
    return found


def list_budgets(session: Session, tenant_id: TenantId | None, page: PageRequest) -> Page[Budget]:
    """The tenant's budgets (None: everybody's), oldest first."""
    return paginate(session, select(Budget).where(*_of_tenant(tenant_id)), Budget, page)


def lock_budgets(session: Session, tenant_id: TenantId) -> Sequence[Budget]:
    """All of the tenant's budgets as they are, until the transaction ends.

    Always all of them and in one order, so that two transactions cannot wait for each other. Who
    looks at or changes what is used of a budget does it under this lock.
    """
    query = select(Budget).where(Budget.tenant_id == tenant_id).order_by(Budget.id)
    return session.scalars(query.with_for_update().execution_options(populate_existing=True)).all()


def covers(budget: Budget, *, key_id: str | None, collection_id: str | None) -> bool:
    """Whether work with this key and of this collection counts."""
    return budget.key_id in (None, key_id) and budget.collection_id in (None, collection_id)


def standing_of(
    session: Session, budget: Budget, moment: datetime, *, except_job: str | None = None
) -> Standing:
    """How the budget stands in the period of `moment`; `except_job`: what that job holds is left out."""
    bounds = budget_bounds(budget, moment)
    period = find_period(session, budget, bounds)
    used = period.used if period is not None else sum_of_ledger(session, budget, bounds)
    held = select(func.coalesce(func.sum(BudgetHold.amount), 0)).where(BudgetHold.budget_id == budget.id)
    if except_job is not None:
        held = held.where(BudgetHold.job_id != except_job)
    return Standing(budget, used, int(session.scalar(held) or 0), bounds)


def budget_bounds(budget: Budget, moment: datetime) -> Bounds:
    return bounds_of(Period(budget.period), load_zone(budget.time_zone), moment)


def find_period(session: Session, budget: Budget, bounds: Bounds) -> BudgetPeriod | None:
    return session.get(BudgetPeriod, (budget.id, bounds.start), populate_existing=True)


def sum_of_ledger(session: Session, budget: Budget, bounds: Bounds) -> int:
    """What the ledger's billed lines in the bounds amount to, in the budget's units."""
    lines = [
        LedgerEntry.tenant_id == budget.tenant_id,
        LedgerEntry.billed,
        LedgerEntry.created_at >= bounds.start,
    ]
    if bounds.end is not None:
        lines.append(LedgerEntry.created_at < bounds.end)
    if budget.key_id is not None:
        lines.append(LedgerEntry.key_id == budget.key_id)
    if budget.collection_id is not None:
        lines.append(LedgerEntry.collection_id == budget.collection_id)
    if budget.unit == Unit.TOKENS:
        return int(session.scalar(select(func.sum(LedgerEntry.num_tokens)).where(*lines)) or 0)
    cost = session.scalar(select(func.sum(LedgerEntry.cost)).where(*lines))
    return money_units(cost or Decimal(0))


def reached_threshold(budget: Budget, percent: int) -> int:
    """The highest threshold that `percent` has reached, 0 where none; what is used up is one always."""
    return max((each for each in (*budget.warn_at, EXHAUSTED_PERCENT) if each <= percent), default=0)


def money_units(amount: Decimal) -> int:
    """As budgets count money; rounded up where it is finer than the ledger."""
    return -int(-amount.scaleb(MONEY_SCALE) // 1)


def find_budget_differences(
    session: Session, *, now: datetime, mend: bool = False
) -> Iterator[BudgetDifference]:
    """Budgets whose counter for the running period differs from the ledger; there should be none.

    Call it in a write transaction: under the locks nothing is counted meanwhile. With `mend`, counters
    are set to what the ledger has.
    """
    for tenant_id in session.scalars(select(Budget.tenant_id).distinct().order_by(Budget.tenant_id)).all():
        for budget in lock_budgets(session, TenantId(tenant_id)):
            bounds = budget_bounds(budget, now)
            period = find_period(session, budget, bounds)
            if period is None:
                continue
            on_ledger = sum_of_ledger(session, budget, bounds)
            if on_ledger != period.used:
                yield BudgetDifference(budget.id, period.used, on_ledger)
                if mend:
                    period.used = on_ledger


def _of_tenant(tenant_id: TenantId | None) -> list[ColumnElement[bool]]:
    return [] if tenant_id is None else [Budget.tenant_id == tenant_id]


def _money(units: int) -> Decimal:
    return Decimal(units).scaleb(-MONEY_SCALE)


def _whole(limit: Decimal, unit: Unit) -> int:
    units = limit if unit is Unit.TOKENS else limit.scaleb(MONEY_SCALE)
    most = MAX_LIMIT * 1_000_000 if unit is Unit.TOKENS else MAX_LIMIT.scaleb(MONEY_SCALE)
    if not limit.is_finite() or not 0 <= units <= most:
        raise InvalidInput(
            f"The limit {limit} is not from 0 to {most if unit is Unit.TOKENS else MAX_LIMIT}.",
            remedy="Delete the budget where there is to be no limit.",
        )
    if units != units.to_integral_value():
        raise InvalidInput(
            f"The limit {limit} is finer than what is counted.",
            remedy="Give whole tokens, or an amount of at most ten decimal places.",
        )
    return int(units)


def _thresholds(warn_at: Sequence[int]) -> list[int]:
    if len(warn_at) > _MAX_WARNINGS or not all(1 <= percent <= 99 for percent in warn_at):
        raise InvalidInput(
            f"warn_at must be at most {_MAX_WARNINGS} percents from 1 to 99.",
            remedy="Of what is used up, 100 %, you are told always.",
        )
    return sorted(set(warn_at))
