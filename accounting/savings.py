"""What prefix caching saved a tenant: what the engine had computed before, at the price of computing it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

from sqlalchemy import select
from sqlalchemy.orm import Session

from accounting.calendar import Interval, parse_interval
from accounting.ledger_sums import LedgerSum, sum_ledger
from accounting.money import cost_of
from accounting.price_book import LIST_PRICE
from accounting.price_table import find_currency, prices_in_force
from accounting.reports import one_currency
from accounting.stages import Stage
from core.clock import utc_now
from core.ids import TenantId
from storage.models import Price

_KEYS = ("price_stage", "model", "model_revision")
_ONE_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Savings:
    """`uncached_cost` is what the cached tokens would have cost, `cost` what was billed for them."""

    interval: Interval
    currency: str
    cached_tokens: int
    uncached_cost: Decimal
    cost: Decimal

    @property
    def saved(self) -> Decimal:
        return self.uncached_cost - self.cost


def prefix_cache_savings(
    session: Session,
    tenant_id: TenantId,
    *,
    start: date | datetime | None = None,
    end: date | datetime | None = None,
    time_zone: str = "UTC",
) -> Savings:
    """Over billed tokens; each at the uncached price of its model that was in force when it was used.

    Raises:
        InvalidInput, Conflict: as `cost_report` does.
    """
    interval = parse_interval(start, end, time_zone)
    tokens, uncached, cost = 0, Decimal(0), Decimal(0)
    sums: list[LedgerSum] = []
    for piece in _between_price_changes(session, tenant_id, interval):
        found = sum_ledger(
            session, tenant_id, piece, columns=_KEYS, matching={"price_stage": Stage.PREFILL_CACHED.value}
        )
        if not found:
            continue
        moment = (
            piece.end - _ONE_INSTANT if piece.end is not None else max(piece.start or utc_now(), utc_now())
        )
        prices = prices_in_force(session, tenant_id, moment)
        for each in found:
            price = prices.get(
                each.columns["model"], Stage.PREFILL_UNCACHED, revision=each.columns["model_revision"]
            )
            tokens += each.amounts.num_tokens
            uncached += cost_of(each.amounts.num_tokens, price.price_per_million)
            cost += each.amounts.cost
        sums += found
    return Savings(interval, one_currency(sums) or find_currency(session), tokens, uncached, cost)


def _between_price_changes(session: Session, tenant_id: TenantId, interval: Interval) -> Iterable[Interval]:
    changes = session.scalars(
        select(Price.effective_from)
        .where(Price.tenant_id.in_([LIST_PRICE, tenant_id]), Price.stage == Stage.PREFILL_UNCACHED.value)
        .distinct()
        .order_by(Price.effective_from)
    )
    inside = [
        change
        for change in changes
        if (interval.start is None or interval.start < change)
        and (interval.end is None or change < interval.end)
    ]
    return (Interval(*pair, interval.zone) for pair in pairwise([interval.start, *inside, interval.end]))
