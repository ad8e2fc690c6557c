"""Which slots schedules have, by walking over the minutes; it shares no code with `schedules/`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, lru_cache
from zoneinfo import ZoneInfo

_MINUTE = timedelta(minutes=1)
_LATE = timedelta(seconds=60)
_WALK_BEFORE = timedelta(days=2)


@dataclass(frozen=True, slots=True)
class Outage:
    """No scheduler runs from `start` on; at `end` they do again."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class _Cron:
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> _Cron:
        minute, hour, day, month, weekday = text.split()
        return cls(
            _numbers(minute, 0, 59),
            _numbers(hour, 0, 23),
            _numbers(day, 1, 31),
            _numbers(month, 1, 12),
            _numbers(weekday, 0, 6),
        )

    def shows(self, reading: datetime) -> bool:
        # One of day and weekday is a star in every expression used here, so both must hold.
        return (
            reading.minute in self.minutes
            and reading.hour in self.hours
            and reading.day in self.days
            and reading.month in self.months
            and reading.isoweekday() % 7 in self.weekdays
        )


@cache
def slots_of_cron(cron: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    """From `start` up to but without `end`.

    What begins with a star happens whenever the clock shows it. Anything else happens once for each
    reading: at the first instant by which the clock has come to it or past it.
    """
    fields = _Cron.parse(cron)
    repeats = cron.split()[0].startswith("*") or cron.split()[1].startswith("*")
    moments = _repeats(fields, zone, start, end) if repeats else _times(fields, zone, start, end)
    return list(moments)


def slots_of_interval(seconds: int, start: datetime, end: datetime) -> list[datetime]:
    num = -((start - end) // timedelta(seconds=seconds))
    return [start + number * timedelta(seconds=seconds) for number in range(num)]


def split_by_policy(
    slots: Sequence[datetime], outages: Sequence[Outage], policy: str
) -> tuple[list[datetime], list[datetime]]:
    """The slots that should run, and those that the policy leaves out."""
    left_out: set[datetime] = set()
    for outage in outages:
        during = [slot for slot in slots if outage.start <= slot <= outage.end]
        missed = [slot for slot in during if outage.end - slot > _LATE]
        if policy == "latest" and missed and missed[-1] == during[-1]:
            missed.pop()
        if policy != "all":
            left_out.update(missed)
    return [slot for slot in slots if slot not in left_out], sorted(left_out)


def _repeats(fields: _Cron, zone: str, start: datetime, end: datetime) -> Iterator[datetime]:
    for moment, reading in _minutes(zone, start, end):
        if moment >= start and fields.shows(reading):
            yield moment


def _times(fields: _Cron, zone: str, start: datetime, end: datetime) -> Iterator[datetime]:
    seen: datetime | None = None
    for moment, reading in _minutes(zone, start, end):
        if seen is not None and reading <= seen:
            continue
        passed = [reading] if seen is None else _readings(seen + _MINUTE, reading)
        if moment >= start and any(map(fields.shows, passed)):
            yield moment
        seen = reading


@lru_cache(maxsize=1)  # of a year: half a million
def _minutes(zone: str, start: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    """Each minute from two days before the start, and what the zone's clock shows then."""
    clock, first = ZoneInfo(zone), start - _WALK_BEFORE
    moments = [first + number * _MINUTE for number in range((end - first) // _MINUTE)]
    return [(moment, moment.astimezone(clock).replace(tzinfo=None)) for moment in moments]


def _readings(first: datetime, last: datetime) -> list[datetime]:
    return [first + number * _MINUTE for number in range((last - first) // _MINUTE + 1)]


def _numbers(field: str, first: int, last: int) -> frozenset[int]:
    found: set[int] = set()
    for term in field.split(","):
        span, _, step = term.partition("/")
        low, _, high = (f"{first}-{last}" if span == "*" else span).partition("-")
        found.update(range(int(low), int(high or low) + 1, int(step or 1)))
    return frozenset(found)
