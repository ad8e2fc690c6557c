"""Watches the clock for schedules. Any number may run; each slot is held by one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime

import structlog
from sqlalchemy.orm import Session

from core.clock import Clock, utc_now
from core.ids import ScheduleId
from schedules.firing import ScheduleRunner
from storage.database import Database
from storage.schedules import ScheduleQueue

log = structlog.get_logger()

POLL_SECONDS = 2.0
"""Longest sleep: a schedule made or changed meanwhile, and a run that waits, are seen after so long."""
_SHORTEST_SLEEP_SECONDS = 0.02


class Scheduler:
    """Begins what is due, each schedule in a transaction of its own."""

    def __init__(self, database: Database, runner: ScheduleRunner, *, clock: Clock = utc_now) -> None:
        self._database = database
        self._runner = runner
        self._clock = clock

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set; every fault is logged and outlived."""
        while not stop.is_set():
            try:
                pause = self.tick()
            except Exception:  # the edge of a thread that must live: SQL comes back
                log.exception("scheduler.fault")
                pause = POLL_SECONDS
            stop.wait(pause)

    def tick(self) -> float:
        """Begin all that is due now; seconds to sleep until something may be."""
        now = self._clock()
        with self._database.read() as session:
            queue = ScheduleQueue(session)
            due, unblocked = queue.list_due(now), queue.list_unblocked()
        done = [self._work(self._runner.fire, each, now) for each in due]
        done += [self._work(self._runner.start_waiting, each, now) for each in unblocked]
        if not all(done):
            return POLL_SECONDS
        with self._database.read() as session:
            next_at = ScheduleQueue(session).next_due_at()
        if next_at is None:
            return POLL_SECONDS
        return min(POLL_SECONDS, max(_SHORTEST_SLEEP_SECONDS, (next_at - self._clock()).total_seconds()))

    def _work(
        self, do: Callable[[Session, ScheduleId, datetime], None], schedule_id: ScheduleId, now: datetime
    ) -> bool:
        try:
            with self._database.write() as session:
                do(session, schedule_id, now)
        except Exception:  # as above; the slot is still due when it is looked at again
            log.exception("schedule.postponed", schedule_id=schedule_id)
            return False
        return True
