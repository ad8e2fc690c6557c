"""Intervals and days as a time zone's clocks show them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from core.errors import InvalidInput

EPOCH = date(1970, 1, 1)
SECONDS_PER_DAY = 86_400

_STEP = timedelta(days=1)  # no zone changes its offset twice within a day
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Interval:
    """From `start` on, up to but without `end`; None is unbounded."""

    start: datetime | None
    end: datetime | None
    zone: ZoneInfo


@dataclass(frozen=True, slots=True)
class OffsetPeriod:
    """Before `until` (None: for ever), clocks are `offset_seconds` ahead of UTC."""

    until: datetime | None
    offset_seconds: int


def parse_interval(start: date | None, end: date | None, time_zone: str) -> Interval:
    """The interval in UTC. Dates stand for their first instant in the zone, and so do datetimes
    without a zone of their own stand for a reading of its clocks.

    Raises:
        InvalidInput: the zone is unknown, or the end is not after the start.
    """
    zone = load_zone(time_zone)
    first, last = _instant(start, zone), _instant(end, zone)
    if first is not None and last is not None and last <= first:
        raise InvalidInput(
            f"The interval ends at {end}, which is not after its start, {start}.",
            remedy="Swap them; the end is exclusive, so one day ends at the next.",
        )
    return Interval(first, last, zone)


def load_zone(name: str) -> ZoneInfo:
    """Raises `InvalidInput` unless `name` is of the IANA time zone database."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise InvalidInput(
            f"There is no time zone {name!r}.",
            remedy="Use an IANA name such as Asia/Shanghai, Europe/Berlin or UTC.",
            time_zone=name,
        ) from error


def offset_periods(zone: ZoneInfo, first: datetime, last: datetime) -> list[OffsetPeriod]:
    """The zone's offsets from `first` to `last` in order; the last period's `until` is None."""
    periods: list[OffsetPeriod] = []
    moment = first.replace(microsecond=0)
    while moment < last:
        step = min(moment + _STEP, last)
        if _offset(zone, step) != _offset(zone, moment):
            change = _find_change(zone, moment, step)
            periods.append(OffsetPeriod(change, _offset(zone, moment)))
        moment = step
    return [*periods, OffsetPeriod(None, _offset(zone, last))]


def local_midnights(
    periods: Sequence[OffsetPeriod], first: int, last: int, *, wanted: Callable[[date], bool]
) -> list[int]:
    """Seconds since 1970, from `first` to `last`, at which a wanted date begins or clocks change.

    Between two of them a clock of the zone shows no other date that is wanted.
    """
    found: list[int] = []
    for period in periods:
        end = last if period.until is None else min(int(period.until.timestamp()), last)
        day = -(-(first + period.offset_seconds) // SECONDS_PER_DAY)
        while (moment := day * SECONDS_PER_DAY - period.offset_seconds) <= end:
            if wanted(date_of_day(day)):
                found.append(moment)
            day += 1
        if period.until is not None and first <= end < last:
            found.append(end)
        first = max(first, end)
    return found


def date_of_day(day_number: int) -> date:
    """The date so many days after 1 January 1970."""
    return EPOCH + timedelta(days=day_number)


def _instant(value: date | None, zone: ZoneInfo) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if value.tzinfo is None:
        value = value.replace(tzinfo=zone)
    return value.astimezone(UTC)


def _offset(zone: ZoneInfo, moment: datetime) -> int:
    return round((moment.astimezone(zone).utcoffset() or timedelta()).total_seconds())


def _find_change(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """The first second, of those after `before`, whose offset is that of `after`."""
    wanted = _offset(zone, after)
    while after - before > _SECOND:
        middle = (before + (after - before) / 2).replace(microsecond=0)
        before, after = (before, middle) if _offset(zone, middle) == wanted else (middle, after)
    return after
