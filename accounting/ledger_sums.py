"""The one query behind all reports: exact integer sums of the ledger, made by the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    String,
    case,
    cast,
    extract,
    func,
    literal,
    select,
    type_coerce,
)
from sqlalchemy.orm import Session

from accounting.calendar import SECONDS_PER_DAY, Interval, offset_periods
from core.ids import TenantId
from storage.models import LedgerEntry


@dataclass(frozen=True, slots=True)
class LedgerSum:
    """Lines that agree in `columns`, `billed`, currency and, where asked for, day.

    `day_number` counts the zone's days from 1 January 1970; 0 where days were not asked for.
    """

    columns: Mapping[str, str | None]
    day_number: int
    billed: bool
    currency: str
    num_tokens: int
    cost: Decimal


def sum_ledger(
    session: Session,
    tenant_id: TenantId | None,
    interval: Interval,
    *,
    columns: Sequence[str],
    by_day: bool,
) -> list[LedgerSum]:
    """Sums of the tenant's lines (None: of everybody's) in the interval, in no particular order."""
    day = _day_number(session, tenant_id, interval) if by_day else literal(0, BigInteger)
    lines = (
        select(
            *(getattr(LedgerEntry, column) for column in columns),
            LedgerEntry.billed,
            LedgerEntry.currency,
            LedgerEntry.num_tokens,
            LedgerEntry.cost,
            day.label("day_number"),
        )
        .where(*_of_interval(tenant_id, interval))
        .subquery()
    )
    groups = [*(lines.c[column] for column in columns), lines.c.day_number, lines.c.billed, lines.c.currency]
    query = select(*groups, func.sum(lines.c.num_tokens), func.sum(lines.c.cost)).group_by(*groups)
    return [
        LedgerSum(
            columns=dict(zip(columns, row[: len(columns)], strict=True)),
            day_number=row.day_number,
            billed=row.billed,
            currency=row.currency,
            num_tokens=int(row[-2]),
            cost=row[-1],
        )
        for row in session.execute(query)
    ]


def _of_interval(tenant_id: TenantId | None, interval: Interval) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if tenant_id is not None:
        conditions.append(LedgerEntry.tenant_id == tenant_id)
    if interval.start is not None:
        conditions.append(LedgerEntry.created_at >= interval.start)
    if interval.end is not None:
        conditions.append(LedgerEntry.created_at < interval.end)
    return conditions


def _day_number(session: Session, tenant_id: TenantId | None, interval: Interval) -> ColumnElement[int]:
    """The line's day in the zone, by arithmetic that both databases do alike.

    The zone's offsets are worked out here and go into the query as numbers: SQLite knows no zones,
    and PostgreSQL's own table of them may be another edition.
    """
    bounds = select(func.min(LedgerEntry.created_at), func.max(LedgerEntry.created_at)).where(
        *_of_interval(tenant_id, interval)
    )
    first, last = session.execute(bounds).one()
    if first is None:
        return literal(0, BigInteger)
    *changes, final = offset_periods(interval.zone, first, last)
    offset: ColumnElement[int] = literal(final.offset_seconds, BigInteger)
    if changes:
        offset = case(
            *((LedgerEntry.created_at < period.until, period.offset_seconds) for period in changes),
            else_=offset,
        )
    return (_epoch_seconds(session) + offset) // SECONDS_PER_DAY


def _epoch_seconds(session: Session) -> ColumnElement[int]:
    """Whole seconds since 1970, rounded down."""
    if session.get_bind().dialect.name == "postgresql":
        return cast(func.floor(extract("epoch", LedgerEntry.created_at)), BigInteger)
    # strftime would round the last half millisecond of a day up into the next: cut it off first.
    text = func.substr(type_coerce(LedgerEntry.created_at, String), 1, 19)
    return cast(func.strftime("%s", text), BigInteger)
