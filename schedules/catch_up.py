"""What becomes of slots that were due while no scheduler ran."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Literal

from schedules.timetable import Timetable

CatchUp = Literal["skip", "latest", "all"]

MISSED_AFTER = timedelta(seconds=60)
"""A slot that nobody started so long after it was due is missed, and the policy decides."""
MAX_CAUGHT_UP = 100
"""Most slots that `all` makes up for; of more, the newest."""

_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class DueSlots:
    """`run` in order of time, the missed ones among them in front. `skipped`: the first and last of the
    slots that are not made up for; none of those lies between two that run."""

    run: Sequence[datetime]
    skipped: tuple[datetime, datetime] | None


def choose_slots(timetable: Timetable, first: datetime, now: datetime, catch_up: CatchUp) -> DueSlots:
    """What to do about the slots from `first` to `now`.

    Those due a moment ago run under every policy. `skip` runs no other; `latest` runs the newest missed one
    where nothing else runs; `all` runs them all, at most `MAX_CAUGHT_UP`.
    """
    newest = timetable.newest(first, now)
    if newest is None:
        return DueSlots((), None)
    match catch_up:
        case "all":
            run = _newest_slots(timetable, first, newest)
        case "latest":
            run = _on_time(timetable, first, now) or [newest]
        case "skip":
            run = _on_time(timetable, first, now)
    last_skipped = timetable.newest(first, run[0] - _SECOND) if run else newest
    return DueSlots(run, None if last_skipped is None else (first, last_skipped))


def _on_time(timetable: Timetable, first: datetime, now: datetime) -> list[datetime]:
    return [slot for slot in timetable.slots(max(first, now - MISSED_AFTER), now) if is_on_time(slot, now)]


def is_on_time(slot: datetime, now: datetime) -> bool:
    return now - slot <= MISSED_AFTER


def _newest_slots(timetable: Timetable, first: datetime, newest: datetime) -> list[datetime]:
    found = list(islice(timetable.slots(first, newest), MAX_CAUGHT_UP + 1))
    if len(found) <= MAX_CAUGHT_UP:
        return found
    latest = deque([newest])
    while len(latest) < MAX_CAUGHT_UP and (before := timetable.newest(first, latest[0] - _SECOND)):
        latest.appendleft(before)
    return list(latest)
