"""What a tenant was spared: prompts that the engine, and passages that the embedder, had computed before."""

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
from storage.uploads import reused_tokens

_KEYS = ("price_stage", "model", "model_revision")
_ONE_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Savings:
    """`uncached_cost` is what the cached tokens would have cost, `cost` what was billed for them;
    `reused_cost` is what embedding the reused tokens would have cost, for which nothing was."""

    interval: Interval
    currency: str
    cached_tokens: int
    uncached_cost: Decimal
    cost: Decimal
    reused_tokens: int = 0
    reused_cost: Decimal = Decimal(0)

    @property
    def saved(self) -> Decimal:
        return self.uncached_cost - self.cost + self.reused_cost


def find_savings(
    session: Session,
    tenant_id: TenantId,
    *,
    start: date | datetime | None = None,
    end: date | datetime | None = None,
    time_zone: str = "UTC",
) -> Savings:
    """Cached tokens that were billed, each at the uncached price of its model that was in force when it was
    used; and tokens of passages that the tenant had vectors of, at the price of embedding them at the upload.

    Raises:
        InvalidInput, Conflict: as `cost_report` does.
    """
    interval = parse_interval(start, end, time_zone)
    tokens, uncached, cost = 0, Decimal(0), Decimal(0)
    sums: list[LedgerSum] = []
    for piece in _between_price_changes(session, tenant_id, interval, Stage.PREFILL_UNCACHED):
        found = sum_ledger(
            session, tenant_id, piece, columns=_KEYS, matching={"price_stage": Stage.PREFILL_CACHED.value}
        )
        if not found:
            continue
        prices = prices_in_force(session, tenant_id, _moment_of(piece))
        for each in found:
            price = prices.get(
                each.columns["model"], Stage.PREFILL_UNCACHED, revision=each.columns["model_revision"]
            )
            tokens += each.amounts.num_tokens
            uncached += cost_of(each.amounts.num_tokens, price.price_per_million)
            cost += each.amounts.cost
        sums += found
    reused, reused_cost = _reused(session, tenant_id, interval)
    currency = one_currency(sums) or find_currency(session)
    return Savings(interval, currency, tokens, uncached, cost, reused, reused_cost)


def _reused(session: Session, tenant_id: TenantId, interval: Interval) -> tuple[int, Decimal]:
    tokens, cost = 0, Decimal(0)
    for piece in _between_price_changes(session, tenant_id, interval, Stage.EMBED):
        found = reused_tokens(session, tenant_id, start=piece.start, end=piece.end)
        if not found:
            continue
        prices = prices_in_force(session, tenant_id, _moment_of(piece))
        for (model, revision), num_tokens in found.items():
            tokens += num_tokens
            price = prices.get(model, Stage.EMBED, revision=revision)
            cost += cost_of(num_tokens, price.price_per_million)
    return tokens, cost


def _moment_of(piece: Interval) -> datetime:
    """One at which its prices are in force."""
    return piece.end - _ONE_INSTANT if piece.end is not None else max(piece.start or utc_now(), utc_now())


def _between_price_changes(
    session: Session, tenant_id: TenantId, interval: Interval, stage: Stage
) -> Iterable[Interval]:
    changes = session.scalars(
        select(Price.effective_from)
        .where(Price.tenant_id.in_([LIST_PRICE, tenant_id]), Price.stage == stage.value)
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
