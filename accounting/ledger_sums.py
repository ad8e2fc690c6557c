"""The one query behind all reports: exact integer sums of the ledger, made by the database.

What closed hours hold is read from their rollups, the rest from the lines. Which of the two it was changes no
figure (tests/integration/test_accounting_rollups.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    and_,
    case,
    column,
    func,
    literal,
    select,
    type_coerce,
    union_all,
    values,
)
from sqlalchemy.orm import Session

from accounting.calendar import SECONDS_PER_DAY, Interval, OffsetPeriod, local_midnights, offset_periods
from accounting.ledger_columns import recorded_second, select_lines
from accounting.rollups import GRAINS, SECONDS_PER_HOUR, closed_until, find_grain
from core.ids import TenantId
from storage.models import LedgerEntry, LedgerRollup, Tenant

_SUMMED = ("billed", "currency", "num_tokens", "cost", "engine_cost")
_MAX_RANGES = 5_000  # a statement of either database takes tens of thousands of parameters
_ONE_INSTANT = timedelta(microseconds=1)

Item = TypeVar("Item")
Range = tuple[datetime, datetime]
"""From the first on, up to but without the second."""


class Period(Enum):
    """What days are told apart by; `DAY` serves all."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"

    def begins(self, day: date) -> bool:
        if self is Period.DAY:
            return True
        return day.isoweekday() == 1 if self is Period.WEEK else day.day == 1


@dataclass(frozen=True, slots=True)
class Amounts:
    """Tokens and their cost: billed ones, and apart those that failed attempts burned.

    `engine_cost` is what the machine cost while it worked on all of them; None where no rate was in force.
    """

    num_tokens: int = 0
    cost: Decimal = Decimal(0)
    burned_tokens: int = 0
    burned_cost: Decimal = Decimal(0)
    engine_cost: Decimal | None = None

    def without_engine_cost(self) -> Amounts:
        """As a tenant sees it, whom the machine's rate does not concern."""
        return replace(self, engine_cost=None)

    @property
    def margin(self) -> Decimal | None:
        """What is billed above what the machine cost."""
        return None if self.engine_cost is None else self.cost - self.engine_cost

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(
            self.num_tokens + other.num_tokens,
            self.cost + other.cost,
            self.burned_tokens + other.burned_tokens,
            self.burned_cost + other.burned_cost,
            _sum(self.engine_cost, other.engine_cost),
        )


@dataclass(frozen=True, slots=True)
class LedgerSum:
    """Lines that agree in `columns`, currency and, where asked for, day.

    `day_number` counts the zone's days from 1 January 1970; 0 where days were not asked for.
    """

    columns: Mapping[str, Any]
    day_number: int
    currency: str
    amounts: Amounts


def sum_ledger(
    session: Session,
    tenant_id: TenantId | None,
    interval: Interval,
    *,
    columns: Sequence[str] = (),
    period: Period | None = None,
    matching: Mapping[str, str] | None = None,
    num_top: int | None = None,
    use_rollups: bool = True,
) -> list[LedgerSum]:
    """Sums of the tenant's lines (None: of everybody's) in the interval, in no particular order.

    Args:
        columns: of the ledger, and of its jobs (`job_kind`).
        period: days are told apart so far that no sum is of two periods; None: they are not.
        matching: only lines that have these values in these columns.
        num_top: only so many groups, of the highest cost, the highest first; those without any columns
            are left out.
        use_rollups: False reads every line, as tests do that hold one against the other.
    """
    tenants = [tenant_id] if tenant_id is not None else _all_tenants(session)
    return [
        found
        for each in tenants
        for found in _Sums(session, each, interval, period, matching or {}, use_rollups).group(
            list(columns), num_top
        )
    ]


@dataclass(frozen=True, slots=True)
class _Coverage:
    """Stretches of a grain's length to read from rollups, but for some; hours of these, to read from those of
    hours; and what of the lines is to be read besides."""

    first: int
    end: int
    without: Sequence[int]
    hours: Sequence[int]
    lines: Sequence[Range]


@dataclass(frozen=True, slots=True)
class _Sums:
    session: Session
    tenant_id: TenantId
    interval: Interval
    period: Period | None
    matching: Mapping[str, str]
    use_rollups: bool

    def group(self, columns: list[str], num_top: int | None) -> list[LedgerSum]:
        bounds = self._bounds()
        if bounds is None:
            return []
        periods = offset_periods(self.interval.zone, *bounds) if self.period else []
        names = list(dict.fromkeys((*columns, *self.matching)))
        grain = find_grain(names, by_day=self.period is Period.DAY) if self.use_rollups else None
        members: list[Select[Any]] = []
        whole = (self.interval.start or bounds[0], self.interval.end or bounds[1] + _ONE_INSTANT)
        ranges: Sequence[Range] = [whole]
        if (
            grain is not None
            and (coverage := self._cover(GRAINS[grain].seconds, whole, bounds[0], periods)) is not None
        ):
            members.append(self._rolled(grain, names, coverage, periods))
            members += [self._hours(names, some, periods) for some in _chunks(coverage.hours)]
            ranges = coverage.lines
        members += [self._lines(names, some, periods) for some in _chunks(ranges)]
        return self._read(members, columns, num_top)

    def _bounds(self) -> tuple[datetime, datetime] | None:
        """When the first and the last line of the interval were written."""
        within = [LedgerEntry.tenant_id == self.tenant_id]
        if self.interval.start is not None:
            within.append(LedgerEntry.created_at >= self.interval.start)
        if self.interval.end is not None:
            within.append(LedgerEntry.created_at < self.interval.end)
        # One at a time, so that each is a look at one end of the index.
        first = self.session.scalar(select(func.min(LedgerEntry.created_at)).where(*within))
        last = self.session.scalar(select(func.max(LedgerEntry.created_at)).where(*within))
        return None if first is None or last is None else (first, last)

    def _cover(
        self, seconds: int, whole: Range, first: datetime, periods: Sequence[OffsetPeriod]
    ) -> _Coverage | None:
        """By stretches of so many seconds; None: no whole one of the interval is closed."""
        start, end = whole
        low = _floor(_second(first), seconds)
        if self.interval.start is not None:
            low = max(low, _floor(_second(start, up=True) + seconds - 1, seconds))
        high = closed_until(self.session, self.tenant_id)
        if self.interval.end is not None:
            high = min(high, _floor(_second(end), seconds))
        if low >= high:
            return None
        cuts = local_midnights(periods, low, high, wanted=self.period.begins) if self.period else []
        without = sorted({_floor(cut, seconds) for cut in cuts if cut % seconds and low < cut < high})
        hours: list[int] = []
        if seconds == SECONDS_PER_HOUR:
            split = without
        else:
            # A day in which a date of the zone begins is read by its hours: its lines may be thousands.
            every = [day + second for day in without for second in range(0, seconds, SECONDS_PER_HOUR)]
            inside = {_floor(cut, SECONDS_PER_HOUR) for cut in cuts if cut % SECONDS_PER_HOUR}
            hours = [hour for hour in every if hour not in inside]
            split = [hour for hour in every if hour in inside]
        lines: list[Range] = [(_moment(each), _moment(each + SECONDS_PER_HOUR)) for each in split]
        if start < _moment(low):
            lines.append((start, _moment(low)))
        if end > _moment(high):
            lines.append((_moment(high), end))
        return _Coverage(low, high, without, hours, lines)

    def _rolled(
        self, grain: str, columns: list[str], coverage: _Coverage, periods: Sequence[OffsetPeriod]
    ) -> Select[Any]:
        query = self._rows(grain, columns, periods).where(
            LedgerRollup.start >= coverage.first, LedgerRollup.start < coverage.end
        )
        for some in _chunks(coverage.without):
            query = query.where(LedgerRollup.start.not_in(some))
        return query

    def _hours(
        self, columns: list[str], hours: Sequence[int], periods: Sequence[OffsetPeriod]
    ) -> Select[Any]:
        grain = find_grain(columns, by_day=True)
        assert grain is not None  # every grain of days has one of hours that says more
        return self._rows(grain, columns, periods).where(LedgerRollup.start.in_(hours))

    def _rows(self, grain: str, columns: list[str], periods: Sequence[OffsetPeriod]) -> Select[Any]:
        table = LedgerRollup.__table__.c
        day = self._day_number(
            table.start,
            periods,
            lambda until: table.start < int(until.timestamp()),
        )
        names = [*columns, *_SUMMED]
        return select(*(table[name] for name in names), day.label("day_number")).where(
            table.tenant_id == self.tenant_id, table.grain == grain
        )

    def _lines(
        self, columns: list[str], ranges: Sequence[Range], periods: Sequence[OffsetPeriod]
    ) -> Select[Any]:
        # Joined, not listed as conditions: each range is then a look into the index.
        wanted = (
            values(column("first", LedgerEntry.created_at.type), column("after", LedgerEntry.created_at.type))
            .data(list(ranges))
            .cte(f"ranges_{_second(ranges[0][0])}")
        )
        day = self._day_number(
            recorded_second(self.session), periods, lambda until: LedgerEntry.created_at < until
        )
        return select_lines([*columns, *_SUMMED], day.label("day_number")).join(
            wanted,
            and_(
                LedgerEntry.tenant_id == self.tenant_id,
                LedgerEntry.created_at >= wanted.c.first,
                LedgerEntry.created_at < wanted.c.after,
            ),
        )

    def _day_number(
        self,
        second: ColumnElement[int],
        periods: Sequence[OffsetPeriod],
        is_before: Callable[[datetime], ColumnElement[bool]],
    ) -> ColumnElement[int]:
        """The day in the zone, by arithmetic that both databases do alike; 0 without periods.

        The zone's offsets are worked out here and go into the query as numbers: SQLite knows no zones,
        and PostgreSQL's own table of them may be another edition.
        """
        if not periods:
            return literal(0, BigInteger)
        *changes, final = periods
        offset: ColumnElement[int] = literal(final.offset_seconds, BigInteger)
        if changes:
            offset = case(
                *((is_before(period.until), period.offset_seconds) for period in changes if period.until),
                else_=offset,
            )
        day = (second + offset) // SECONDS_PER_DAY
        # 1 January 1970 was a Thursday: a week is named by its Monday.
        return day - (day + 3) % 7 if self.period is Period.WEEK else day

    def _read(
        self, members: Sequence[Select[Any]], columns: Sequence[str], num_top: int | None
    ) -> list[LedgerSum]:
        lines = (union_all(*members) if len(members) > 1 else members[0]).subquery()
        keys = [*(lines.c[name] for name in columns), lines.c.day_number, lines.c.currency]

        def total(what: ColumnElement[Any], *, billed: bool) -> ColumnElement[Any]:
            which = lines.c.billed if billed else ~lines.c.billed
            return type_coerce(func.sum(case((which, what), else_=0)), what.type)

        cost = total(lines.c.cost, billed=True)
        query = select(
            *keys,
            total(lines.c.num_tokens, billed=True),
            cost,
            total(lines.c.num_tokens, billed=False),
            total(lines.c.cost, billed=False),
            func.sum(lines.c.engine_cost),
        ).group_by(*keys)
        query = query.where(*(lines.c[name] == value for name, value in self.matching.items()))
        if num_top is not None:
            named = [lines.c[name].is_not(None) for name in columns]
            query = (
                query.where(*named).order_by(cost.desc(), *(lines.c[name] for name in columns)).limit(num_top)
            )
        return [
            LedgerSum(
                columns=dict(zip(columns, row[: len(columns)], strict=True)),
                day_number=row.day_number,
                currency=row.currency,
                amounts=Amounts(int(row[-5]), row[-4], int(row[-3]), row[-2], row[-1]),
            )
            for row in self.session.execute(query)
        ]


def _sum(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    if one is None or other is None:
        return one if other is None else other
    return one + other


def _all_tenants(session: Session) -> list[TenantId]:
    return [TenantId(each) for each in session.scalars(select(Tenant.id).order_by(Tenant.id))]


def _chunks(items: Sequence[Item]) -> list[Sequence[Item]]:
    return [items[i : i + _MAX_RANGES] for i in range(0, len(items), _MAX_RANGES)]


def _floor(second: int, seconds: int) -> int:
    return second - second % seconds


def _second(moment: datetime, *, up: bool = False) -> int:
    """Whole seconds since 1970, rounded down, or up."""
    whole = moment.replace(microsecond=0)
    return int(whole.timestamp()) + (1 if up and moment > whole else 0)


def _moment(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)
