"""What a tenant owes for a month: lines of one model, stage and price, and a total that is their sum."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy.orm import Session

from accounting.calendar import Interval, parse_interval
from accounting.ledger_sums import Amounts, sum_ledger
from accounting.money import format_amount, invoice_total
from accounting.price_table import find_currency
from accounting.reports import one_currency
from accounting.rollups import GRACE
from core.errors import InvalidInput
from core.ids import TenantId

_MONTH = re.compile(r"(\d{4})-(0[1-9]|1[0-2])")
_KEYS = ("is_correction", "model", "model_revision", "stage", "price_stage", "price_per_million")


@dataclass(frozen=True, slots=True, order=True)
class InvoiceLine:
    """`amount` is `num_tokens` at `price_per_million`, to the last digit.

    A correction stands on a line of its own, with signs, and may change the amount alone. `stage` is what the work was for, `price_stage` whose price it has.
    """

    is_correction: bool
    model: str
    model_revision: str
    stage: str
    price_stage: str
    price_per_million: Decimal
    num_tokens: int
    amount: Decimal


@dataclass(frozen=True, slots=True)
class Invoice:
    """`subtotal` is the exact sum of the lines, `total` that in the currency's minor units, half to even, and
    `rounding` what this added or took. Nothing else is rounded, so the lines, `rounding` and `total` agree.

    `burned` is what failed attempts used: on no line, in no sum. `digest` is of all that is owed, by whom and
    for when: while the month is not over (`is_final` false) it changes, afterwards it cannot.
    """

    tenant_id: TenantId
    month: str
    interval: Interval
    currency: str
    lines: tuple[InvoiceLine, ...]
    burned: Amounts
    is_final: bool

    @property
    def subtotal(self) -> Decimal:
        return sum((line.amount for line in self.lines), start=Decimal(0))

    @property
    def total(self) -> Decimal:
        return invoice_total(self.subtotal, self.currency)

    @property
    def rounding(self) -> Decimal:
        return self.total - self.subtotal

    @property
    def digest(self) -> str:
        """SHA-256 of the invoice as canonical JSON."""
        content = {
            "tenant_id": self.tenant_id,
            "month": self.month,
            "time_zone": self.interval.zone.key,
            "currency": self.currency,
            "lines": [
                [
                    *(getattr(line, name) for name in _KEYS[:-1]),
                    format_amount(line.price_per_million),
                    line.num_tokens,
                    format_amount(line.amount),
                ]
                for line in self.lines
            ],
            "total": str(self.total),
        }
        text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def number(self) -> str:
        """Names the invoice and what it says: another amount has another number."""
        return f"{self.month}-{self.digest[:12]}"


def make_invoice(
    session: Session,
    tenant_id: TenantId,
    month: str,
    *,
    time_zone: str = "UTC",
    now: datetime,
    use_rollups: bool = True,
) -> Invoice:
    """The tenant's invoice for a month of the zone, such as `2026-11`; the same each time it is made.

    The ledger is append-only and a correction is a line of the day on which it is written, so the lines of
    a month that is over stay what they are.

    Raises:
        InvalidInput: `month` is none, or the zone is unknown.
        Conflict: the month has lines of two currencies.
    """
    interval = _interval(month, time_zone)
    sums = sum_ledger(session, tenant_id, interval, columns=_KEYS, use_rollups=use_rollups)
    amounts: defaultdict[tuple[Any, ...], Amounts] = defaultdict(Amounts)
    for each in sums:
        amounts[tuple(each.columns[name] for name in _KEYS)] += each.amounts
    lines = [
        InvoiceLine(**dict(zip(_KEYS, key, strict=True)), num_tokens=each.num_tokens, amount=each.cost)
        for key, each in amounts.items()
        if each.num_tokens or each.cost
    ]
    burned = sum(amounts.values(), start=Amounts())
    return Invoice(
        tenant_id=tenant_id,
        month=month,
        interval=interval,
        currency=one_currency(sums) or find_currency(session),
        lines=tuple(sorted(lines)),
        burned=Amounts(burned_tokens=burned.burned_tokens, burned_cost=burned.burned_cost),
        is_final=interval.end is not None and interval.end + GRACE <= now,
    )


def _interval(month: str, time_zone: str) -> Interval:
    found = _MONTH.fullmatch(month)
    year, number = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1970 <= year <= 9998:
        raise InvalidInput(
            f"There is no month {month!r}.",
            remedy="Write it as year and month, such as 2026-11.",
            month=month,
        )
    after = date(year + number // 12, number % 12 + 1, 1)
    return parse_interval(date(year, number, 1), after, time_zone)
