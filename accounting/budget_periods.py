"""When a budget's period begins and when the next one does, by the clocks of its time zone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo


class Period(StrEnum):
    """How long a budget lasts before it is whole again; `TOTAL` never is."""

    DAY = "day"
    MONTH = "month"
    TOTAL = "total"


@dataclass(frozen=True, slots=True)
class Bounds:
    """From `start` on, up to but without `end`; None: for ever."""

    start: datetime
    end: datetime | None

    def holds(self, moment: datetime) -> bool:
        return self.start <= moment and (self.end is None or moment < self.end)


_ALWAYS = Bounds(datetime(1970, 1, 1, tzinfo=UTC), None)


def bounds_of(period: Period, zone: ZoneInfo, moment: datetime) -> Bounds:
    """The period that `moment` is in, in UTC.

    A day is as long as the zone's clocks make it: 23 to 25 hours where they change.
    """
    if period is Period.TOTAL:
        return _ALWAYS
    today = moment.astimezone(zone).date()
    if period is Period.DAY:
        return Bounds(_midnight(today, zone), _midnight(today + timedelta(days=1), zone))
    first = today.replace(day=1)
    next_first = (first + timedelta(days=31)).replace(day=1)
    return Bounds(_midnight(first, zone), _midnight(next_first, zone))


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    # Where clocks skip midnight this is the moment of the change, since the offset before it holds.
    return datetime.combine(day, time(), zone).astimezone(UTC)
