"""Holds: what a job may take is set aside of its budgets before it begins, and settled when it ends.

register a job ──reserve──▶ hold ──charge, as ledger lines are written──▶ smaller ──settle──▶ none

A budget admits a job when what such a job usually takes fits into what is left, and holds what it may
take at most, but no more than is left. So jobs that run at once cannot pass the limit together; the
last one that was let in may, by less than its hold.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from sqlalchemy import case, delete, insert, select, update
from sqlalchemy.orm import Session

from accounting.budget_periods import Bounds
from accounting.budgets import (
    EXHAUSTED_PERCENT,
    Standing,
    Unit,
    budget_bounds,
    covers,
    find_period,
    lock_budgets,
    money_units,
    reached_threshold,
    standing_of,
    sum_of_ledger,
)
from core.clock import utc_now
from core.errors import BudgetExceeded, BudgetHeld
from core.ids import TenantId
from storage.jobs import ClaimedJob
from storage.models import Budget, BudgetHold, BudgetPeriod, Job, LedgerEntry
from storage.webhooks import notify

HELD_RETRY_SECONDS = 2
"""When to try again where others hold what is left: they will hardly use all of it."""

_WARNED = "budget_warnings"


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a job takes as a rule, and at most."""

    tokens: int = 0
    most_tokens: int = 0
    cost: Decimal = Decimal(0)
    most_cost: Decimal = Decimal(0)

    def typical(self, unit: str) -> int:
        """In a budget's units."""
        return self.tokens if unit == Unit.TOKENS else money_units(self.cost)

    def most(self, unit: str) -> int:
        """In a budget's units."""
        return self.most_tokens if unit == Unit.TOKENS else money_units(self.most_cost)


def reserve(
    session: Session,
    job: Job,
    estimate: Callable[[], Estimate] | None = None,
    *,
    now: datetime | None = None,
) -> None:
    """Hold what the job may take, of each budget it counts against, in the transaction that makes it.

    A second call for the same job replaces what it holds, so that a long one may extend its hold.
    Budgets near their limit are noted: see `budget_warnings`.

    Args:
        estimate: asked only where the tenant has a budget. None: nothing is held; the job begins where
            anything is left, and asks `require_left` while it runs.

    Raises:
        BudgetExceeded: one has too little left; the transaction must be given up.
        BudgetHeld: it has enough, but for what other jobs hold.
    """
    budgets = [
        budget
        for budget in lock_budgets(session, TenantId(job.tenant_id))
        if covers(budget, key_id=job.key_id, collection_id=job.collection_id)
    ]
    if not budgets:
        return
    moment = now or utc_now()
    expected = estimate() if estimate is not None else Estimate()
    for budget in budgets:
        standing = standing_of(session, budget, moment, except_job=job.id)
        typical = expected.typical(budget.unit)
        if standing.left < max(1, typical):
            raise _exceeded(standing, typical, moment)
        _hold(session, budget, job, min(expected.most(budget.unit), standing.left))
        if standing.state != "open":
            session.info.setdefault(_WARNED, []).append(standing)


def require_left(session: Session, job: ClaimedJob, *, now: datetime | None = None) -> None:
    """What a long job asks before each part of its work that costs.

    Raises:
        BudgetExceeded, BudgetHeld: a budget has nothing left, or only what other jobs hold.
    """
    moment = now or utc_now()
    for budget in session.scalars(select(Budget).where(Budget.tenant_id == job.tenant_id)).all():
        if covers(budget, key_id=job.key_id, collection_id=job.collection_id):
            standing = standing_of(session, budget, moment, except_job=job.id)
            if not standing.left:
                raise _exceeded(standing, 0, moment)


def charge(session: Session, tenant_id: TenantId, entries: Sequence[LedgerEntry]) -> None:
    """Count new lines of the ledger against the tenant's budgets, in the transaction that writes them.

    Only billed lines count. What a job holds shrinks by what it is charged.
    """
    billed = [entry for entry in entries if entry.billed]
    if not billed:
        return
    for budget in lock_budgets(session, tenant_id):
        counted = [
            entry
            for entry in billed
            if covers(budget, key_id=entry.key_id, collection_id=entry.collection_id)
        ]
        if counted:
            _count(session, budget, counted)


def settle(session: Session, job: Job) -> None:
    """The job has ended: what it still holds is free."""
    lock_budgets(session, TenantId(job.tenant_id))  # first, as everywhere: holds are changed under it
    session.execute(delete(BudgetHold).where(BudgetHold.job_id == job.id))


def budget_warnings(session: Session) -> Sequence[Standing]:
    """Budgets past a threshold that this transaction's jobs count against."""
    found: list[Standing] = session.info.get(_WARNED, [])
    return found


def _hold(session: Session, budget: Budget, job: Job, amount: int) -> None:
    session.execute(delete(BudgetHold).where(BudgetHold.budget_id == budget.id, BudgetHold.job_id == job.id))
    if amount:
        session.execute(insert(BudgetHold).values(budget_id=budget.id, job_id=job.id, amount=amount))


def _count(session: Session, budget: Budget, entries: Sequence[LedgerEntry]) -> None:
    by_period: defaultdict[Bounds, int] = defaultdict(int)
    by_job: defaultdict[str, int] = defaultdict(int)
    for entry in entries:
        amount = entry.num_tokens if budget.unit == Unit.TOKENS else money_units(entry.cost)
        by_period[budget_bounds(budget, entry.created_at)] += amount
        if entry.job_id is not None:
            by_job[entry.job_id] += amount
    for job_id, amount in by_job.items():
        rest = BudgetHold.amount - amount
        session.execute(
            update(BudgetHold)
            .where(BudgetHold.budget_id == budget.id, BudgetHold.job_id == job_id)
            .values(amount=case((rest > 0, rest), else_=0))
            .execution_options(synchronize_session=False)
        )
    for bounds, amount in by_period.items():
        period = find_period(session, budget, bounds)
        if period is None:
            # The sum holds the lines that are counted here: they were written before.
            used = sum_of_ledger(session, budget, bounds)
            period = BudgetPeriod(budget_id=budget.id, starts_at=bounds.start, used=used, told_percent=0)
            session.add(period)
        else:
            period.used += amount
        _tell(session, budget, period, bounds)
        session.flush()


def _tell(session: Session, budget: Budget, period: BudgetPeriod, bounds: Bounds) -> None:
    """Tell the tenant's webhooks, once for each threshold of a period, that it was reached."""
    standing = Standing(budget, period.used, 0, bounds)
    reached = reached_threshold(budget, standing.percent)
    if reached <= period.told_percent:
        return
    period.told_percent = reached
    figures = {
        "budget_id": budget.id,
        "key_id": budget.key_id,
        "collection_id": budget.collection_id,
        "unit": budget.currency or budget.unit,
        "period": budget.period,
        "percent": standing.percent,
        "used": standing.amount(standing.used),
        "limit": standing.amount(budget.limit),
        "reset_at": bounds.end.isoformat() if bounds.end is not None else None,
    }
    is_exhausted = reached == EXHAUSTED_PERCENT
    notify(
        session,
        TenantId(budget.tenant_id),
        "budget.exhausted" if is_exhausted else "budget.warning",
        figures,
    )


def _exceeded(standing: Standing, typical: int, moment: datetime) -> BudgetExceeded:
    budget, reset_at = standing.budget, standing.reset_at
    kind, remedy, retry_after = BudgetExceeded, "Have its limit raised.", None
    if standing.used + max(1, typical) <= budget.limit:
        kind, remedy, retry_after = BudgetHeld, "Try again when others have ended.", HELD_RETRY_SECONDS
    elif reset_at is not None:
        remedy = "Have its limit raised, or wait until it is reset."
        retry_after = max(1, math.ceil((reset_at - moment).total_seconds()))
    unit = budget.currency or budget.unit
    held = f", and {standing.amount(standing.held)} held by what runs" if standing.held else ""
    return kind(
        f"Of budget {budget.id}, {standing.amount(budget.limit)} {unit} per {budget.period}, "
        f"{standing.amount(standing.used)} are used{held}; this would take about {standing.amount(typical)}.",
        remedy=remedy,
        budget_id=budget.id,
        unit=unit,
        limit=standing.amount(budget.limit),
        used=standing.amount(standing.used),
        held=standing.amount(standing.held),
        reset_at=reset_at.isoformat() if reset_at is not None else None,
        retry_after_seconds=retry_after,
    )
