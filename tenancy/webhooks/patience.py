"""When a delivery that failed is tried again, and how long its receiver is left alone."""

from __future__ import annotations

from datetime import datetime, timedelta

_FIRST_PAUSE_SECONDS = 5.0
_GROWTH = 4.0
_LONGEST_PAUSE_SECONDS = 6 * 3600.0
_SHORTEST_HOLD_SECONDS = 3.0  # below the first pause, so that a delivery is not held by its own failure
_LONGEST_HOLD_SECONDS = 300.0


def next_attempt_at(
    num_tries: int, *, began_at: datetime, now: datetime, patience: timedelta, jitter: float
) -> datetime | None:
    """After 5 s, 20 s, 80 s … and at last every 6 h; None once the next one would be out of patience.

    Args:
        num_tries: how often it was tried since `began_at`, at least once.
        jitter: a factor near 1, so that what failed together does not return together.
    """
    seconds = min(_FIRST_PAUSE_SECONDS * _GROWTH ** (num_tries - 1), _LONGEST_PAUSE_SECONDS)
    due = now + timedelta(seconds=seconds * jitter)
    return due if due <= began_at + patience else None


def held_until(failing_since: datetime, *, now: datetime) -> datetime:
    """Until when nothing else is sent to a receiver that fails: a quarter of how long it has, 3 s to 5 min.

    With a thousand deliveries waiting for a receiver that hangs, one at a time finds out whether it
    still does, and the workers' threads are there for others.
    """
    seconds = (now - failing_since).total_seconds() / 4
    return now + timedelta(seconds=min(max(seconds, _SHORTEST_HOLD_SECONDS), _LONGEST_HOLD_SECONDS))
