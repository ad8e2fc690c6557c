"""When a schedule is due: instants in UTC, in whole seconds, called slots.

A cron expression describes what a zone's clock shows. Twice a year clocks jump, and there Longleaf does
what Debian's cron does:

- A time of day (`30 2 * * *`) happens once a day. A reading that is skipped is taken at the instant of the
  jump, once; one that comes twice is taken the first time.
- A repetition (`0 * * * *`, `*/15 2 * * *`: its minute or its hour begins with a star) happens at every real
  instant at which the clock shows it: not in hours that are skipped, twice in an hour that comes twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Protocol
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from accounting.calendar import load_zone, offset_periods
from core.errors import InvalidInput

MIN_EVERY_SECONDS = 60
MAX_EVERY_SECONDS = 366 * 86_400
MAX_CRON_CHARACTERS = 200

_SECOND = timedelta(seconds=1)
_FIRST, _LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
_ANY_TIME = datetime(2000, 1, 1)
_WIDEST_GAP = timedelta(days=1)  # Samoa left out 30 December 2011
_CRON_REMEDY = (
    "Give minute, hour, day of month, month and day of week, such as '30 6 * * MON-FRI' or '*/15 * * * *'."
)


class Timing(Protocol):
    def next_after(self, moment: datetime) -> datetime | None:
        """The first slot after the moment; None where there is none for 50 years."""
        ...


@dataclass(frozen=True, slots=True)
class Every:
    """Slots `seconds` apart, counted from `anchor`, which is one: they do not drift."""

    seconds: int
    anchor: datetime

    def next_after(self, moment: datetime) -> datetime | None:
        step = timedelta(seconds=self.seconds)
        return self.anchor + max(0, (moment - self.anchor) // step + 1) * step


@dataclass(frozen=True, slots=True)
class CronTimes:
    """Times of day of a cron expression: each reading of the zone's clock once."""

    expression: str
    zone: ZoneInfo

    def next_after(self, moment: datetime) -> datetime | None:
        # Readings grow with the instants they are taken at, so those at or before the moment are few.
        for reading in CronSim(self.expression, _reading(moment, self.zone)):
            slot = self._taken_at(reading)
            if slot > moment:
                return slot
        return None

    def _taken_at(self, reading: datetime) -> datetime:
        slot = reading.replace(tzinfo=self.zone).astimezone(UTC)
        if _reading(slot, self.zone) == reading:
            return slot
        jump = offset_periods(self.zone, slot - _WIDEST_GAP, slot)[0].until
        return slot if jump is None else jump


@dataclass(frozen=True, slots=True)
class CronRepeats:
    """Repetitions of a cron expression: every instant at which the zone's clock shows it."""

    expression: str
    zone: ZoneInfo

    def next_after(self, moment: datetime) -> datetime | None:
        # While a zone keeps its offset, readings and instants go together.
        since = moment
        while True:
            offset = since.astimezone(self.zone).utcoffset() or timedelta()
            reading = next(CronSim(self.expression, (moment + offset).replace(tzinfo=None)), None)
            if reading is None:
                return None
            slot = reading.replace(tzinfo=UTC) - offset
            jump = offset_periods(self.zone, since, slot)[0].until
            if jump is None:
                return slot
            since, moment = jump, jump - _SECOND


@dataclass(frozen=True, slots=True)
class Timetable:
    """The slots of a timing from `start` on, up to but without `end`; None is unbounded."""

    timing: Timing
    start: datetime | None = None
    end: datetime | None = None

    def next_after(self, moment: datetime) -> datetime | None:
        """The first slot after the moment; None where there is no more."""
        if self.start is not None:
            moment = max(moment, self.start - _SECOND)
        slot = self.timing.next_after(moment)
        return None if slot is None or (self.end is not None and slot >= self.end) else slot

    def slots_after(self, moment: datetime) -> Iterator[datetime]:
        """Those after the moment, in order."""
        while (slot := self.next_after(moment)) is not None:
            yield slot
            moment = slot

    def slots(self, first: datetime, last: datetime) -> Iterator[datetime]:
        """Those from `first` to `last`, both included."""
        return takewhile(lambda slot: slot <= last, self.slots_after(first - _SECOND))

    def newest(self, first: datetime, last: datetime) -> datetime | None:
        """The last of `slots(first, last)`, found without going through them all."""
        earliest = self.next_after(first - _SECOND)
        if earliest is None or earliest > last:
            return None
        # In seconds after the earliest: `low` is a slot, and there is none from `high` + 1 to the last.
        low, high = 0, (last - earliest) // _SECOND
        while low < high:
            middle = (low + high) // 2
            slot = self.next_after(earliest + middle * _SECOND)
            if slot is None or slot > last:
                high = middle
            else:
                low = (slot - earliest) // _SECOND
        return earliest + low * _SECOND


def make_timetable(
    *,
    cron: str | None,
    time_zone: str,
    every_seconds: int | None,
    start_at: datetime | None,
    end_at: datetime | None,
) -> Timetable:
    """The timetable that these describe. Intervals are counted from `start_at`.

    Raises:
        InvalidInput: both or neither of `cron` and `every_seconds`; an expression that is none, or whose
            day never comes; an unknown zone; an interval out of range; an end that is not after the start.
    """
    if (cron is None) == (every_seconds is None):
        raise InvalidInput(
            f"A schedule has {'neither' if cron is None else 'both'} `cron` {'nor' if cron is None else 'and'} "
            "`every_seconds`.",
            remedy="Give one of them, and null for the other.",
        )
    _check_bounds(start_at, end_at)
    zone = load_zone(time_zone)
    timing = _parse_cron(cron, zone) if cron is not None else _every(every_seconds or 0, start_at or _FIRST)
    return Timetable(timing, start_at, end_at)


def _every(seconds: int, anchor: datetime) -> Every:
    if not MIN_EVERY_SECONDS <= seconds <= MAX_EVERY_SECONDS:
        raise InvalidInput(
            f"`every_seconds` is {seconds:,}.",
            remedy=f"Give from {MIN_EVERY_SECONDS} to {MAX_EVERY_SECONDS:,} (366 days).",
            every_seconds=seconds,
        )
    return Every(seconds, anchor)


def _parse_cron(expression: str, zone: ZoneInfo) -> Timing:
    fields = expression.split()
    if len(fields) != 5 or len(expression) > MAX_CRON_CHARACTERS:
        raise InvalidInput(
            f"The cron expression {expression[:MAX_CRON_CHARACTERS]!r} has {len(fields)} fields, not 5.",
            remedy=_CRON_REMEDY,
        )
    if _is_impossible(fields):
        raise InvalidInput(
            f"The cron expression {expression!r} never fires: no month named has such a day.",
            remedy="Use 'L' for the last day of a month: '0 6 L 2 *' is 06:00 on 28 or 29 February.",
        )
    repeats = fields[0].startswith("*") or fields[1].startswith("*")
    return CronRepeats(expression, zone) if repeats else CronTimes(expression, zone)


def _is_impossible(fields: list[str]) -> bool:
    """Whether each field can be read, and yet no day meets them.

    Raises:
        InvalidInput: a field cannot be read.
    """
    expression = " ".join(fields)
    try:
        return next(CronSim(expression, _ANY_TIME), None) is None
    except CronSimError as error:
        if "day-of-month" in str(error) and _is_read([*fields[:3], "*", fields[4]]):
            return True
        wrong = str(error).removeprefix("Bad ")
        raise InvalidInput(
            f"The cron expression {expression!r} cannot be read: its {wrong} is wrong.", remedy=_CRON_REMEDY
        ) from error


def _is_read(fields: list[str]) -> bool:
    try:
        CronSim(" ".join(fields), _ANY_TIME)
    except CronSimError:
        return False
    return True


def _check_bounds(start: datetime | None, end: datetime | None) -> None:
    for name, moment in (("start_at", start), ("end_at", end)):
        if moment is not None and not _FIRST <= moment < _LAST:
            raise InvalidInput(
                f"`{name}` is {moment.isoformat()}.", remedy=f"Give one from {_FIRST:%Y} to {_LAST:%Y}."
            )
    if start is not None and end is not None and end <= start:
        raise InvalidInput(
            f"`end_at`, {end.isoformat()}, is not after `start_at`, {start.isoformat()}.",
            remedy="Swap them, or leave one out; no slot is at or after the end.",
        )


def _reading(moment: datetime, zone: ZoneInfo) -> datetime:
    """What the zone's clock shows, without the zone."""
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)
