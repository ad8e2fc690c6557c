"""Which jobs others give way to, and which give way."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from core.cancellation import look
from core.errors import LongleafError
from core.ids import JobId
from core.precedence import preceding
from core.priority import BACKGROUND
from storage.jobs import ClaimedJob
from storage.waiting_people import WaitingPeople

_LOOK_SECONDS = 0.02
_SHARED_WORKER_SECONDS = 1.0
"""How long a job gives way in all that is of another queue than that of questions: uploads, and what a dead
worker left, may wait for its thread."""


class JobPrecedence:
    """Questions that people ask go first, until their first token; what nobody waits for gives way.

    All else, uploads above all, does neither.

    Args:
        max_seconds: how long work gives way at a time, so that it goes on, if slowly, where somebody always
            waits. A job of another queue than that of questions does so for a second in all.
    """

    def __init__(self, people: WaitingPeople, *, max_seconds: float) -> None:
        self._people = people
        self._max_seconds = max_seconds

    @contextmanager
    def of(self, job: ClaimedJob) -> Iterator[None]:
        """What this thread does in the block is done for `job`."""
        if job.priority >= BACKGROUND:
            is_question = job.queue == "interactive"
            longest = self._max_seconds if is_question else min(self._max_seconds, _SHARED_WORKER_SECONDS)
            with preceding(_GivesWay(self._people, longest, in_all=not is_question)):
                yield
        elif job.queue == "interactive":
            first = _GoesFirst(self._people, job.id)
            try:
                with preceding(first):
                    yield
            finally:
                first.first_token()
        else:
            yield


class _GoesFirst:
    def __init__(self, people: WaitingPeople, job_id: JobId) -> None:
        self._people = people
        self._job_id = job_id
        self._is_waiting = True
        people.add(job_id)

    def is_behind(self) -> bool:
        return False

    def give_way(self) -> None: ...

    def first_token(self) -> None:
        if self._is_waiting:
            self._is_waiting = False
            self._people.remove(self._job_id)


class _GivesWay:
    def __init__(self, people: WaitingPeople, max_seconds: float, *, in_all: bool) -> None:
        self._people = people
        self._max_seconds = max_seconds
        self._in_all = in_all
        self._given = 0.0

    def is_behind(self) -> bool:
        return self._people.is_anyone()

    def give_way(self) -> None:
        started = time.monotonic()
        until = started + self._max_seconds - (self._given if self._in_all else 0.0)
        while time.monotonic() < until and _is_wanted() and self._people.is_anyone():
            time.sleep(_LOOK_SECONDS)
        self._given += time.monotonic() - started

    def first_token(self) -> None: ...


def _is_wanted() -> bool:
    """False: the next checkpoint ends it. Not here, in the middle of what is not booked yet."""
    try:
        look()
    except LongleafError:
        return False
    return True
