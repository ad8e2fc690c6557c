"""Running one job: claim, keep the lease alive, hand to its pipeline, end it."""

from __future__ import annotations

import os
import random
import socket
import threading
import uuid
from collections.abc import Mapping
from contextlib import nullcontext
from datetime import datetime, timedelta
from types import TracebackType
from typing import Protocol

import structlog

from bootstrap.job_kinds import settle_lost
from core.cancellation import Checkpoint, watching
from core.clock import utc_now
from core.errors import (
    BudgetHeld,
    Conflict,
    EngineIncapable,
    EngineUnavailable,
    JobCancelled,
    LeaseLost,
    LongleafError,
    ModelUnavailable,
)
from core.ids import JobId
from core.priority import working_at
from core.request_journal import journaling
from core.settings import WorkerSettings
from storage.database import Database
from storage.events import EventBus
from storage.job_run import JobRun, RunOutcome, raise_unless_held, unwanted
from storage.jobs import ClaimedJob, JobQueue, LeaseState
from storage.models import Job
from workers.precedence import JobPrecedence
from workers.request_journal import JobJournal

log = structlog.get_logger()

FINISHED_EVENT = "finished"
POSTPONED_SECONDS = 30.0
"""A job that is postponed comes back after so long."""


class JobHandler(Protocol):
    """A pipeline that can run jobs of one kind."""

    def run(self, run: JobRun) -> RunOutcome:
        """Do the work and end the job, or yield, or postpone it.

        What a job leaves open that ends otherwise is closed by `bootstrap.job_kinds`.
        """
        ...


class Lease:
    """Extends a job's lease from a thread until the block ends; its `checkpoint` tells the state."""

    def __init__(self, database: Database, job: ClaimedJob, owner: str, settings: WorkerSettings) -> None:
        self._database = database
        self._job = job
        self._owner = owner
        self._settings = settings
        self._state: LeaseState = "held"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"lease-{job.id}", daemon=True)

    def __enter__(self) -> Checkpoint:
        self._thread.start()
        return self._look

    def _look(self) -> None:
        due, state = self._job.deadline_at, self._state
        # The time is known without asking, so that it is over at once and not at the next beat.
        raise_unless_held("overdue" if state == "held" and due and due <= utc_now() else state, self._job)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _beat(self) -> None:
        lease = timedelta(seconds=self._settings.lease_seconds)
        while not self._stop.wait(self._settings.heartbeat_seconds):
            try:
                with self._database.write() as session:
                    self._state = JobQueue(session).extend_lease(self._job.id, self._owner, lease=lease)
            except Exception as error:  # a database that is away for a moment must not end the beat
                log.warning("lease.beat_failed", job_id=self._job.id, error=str(error))
            if self._state == "lost":
                return


class JobExecutor:
    """Runs jobs by id. Safe to call twice for one id: the second call finds it claimed.

    What may pass is tried again until the job's attempts are used up; anything else ends it.
    """

    def __init__(
        self,
        database: Database,
        events: EventBus,
        handlers: Mapping[str, JobHandler],
        settings: WorkerSettings,
        *,
        precedence: JobPrecedence | None = None,
    ) -> None:
        """`precedence` None: no job gives way to another."""
        self._database = database
        self._events = events
        self._handlers = handlers
        self._settings = settings
        self._precedence = precedence

    def execute(self, job_id: JobId) -> None:
        """Run the job to its end, or to its next slice. Never raises for what a job can do wrong."""
        owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        lease = timedelta(seconds=self._settings.lease_seconds)
        with self._database.write() as session:
            job = JobQueue(session).claim_job(job_id, owner, lease=lease)
            if job is not None and job.attempt > 1:
                settle_lost(session, session.get_one(Job, job_id))
        if job is None:
            log.info("job.not_claimed", job_id=job_id)
            return
        log.info("job.started", job_id=job_id, kind=job.kind, attempt=job.attempt)
        with (
            Lease(self._database, job, owner, self._settings) as checkpoint,
            JobJournal(self._database, job) as journal,
            journaling(journal),
        ):
            self._run(JobRun(job=job, owner=owner, checkpoint=checkpoint))

    def _run(self, run: JobRun) -> None:
        job = run.job
        try:
            precedence = self._precedence.of(job) if self._precedence else nullcontext()
            with working_at(job.priority), watching(run.checkpoint), precedence:
                outcome = self._handler(job).run(run)
        except LeaseLost:
            log.warning("job.lease_lost", job_id=job.id)
        except BudgetHeld:
            self._yield(run, due=utc_now() + timedelta(seconds=POSTPONED_SECONDS))
        except (JobCancelled, EngineIncapable) as error:
            self._end(run, error)
        except (ModelUnavailable, Conflict) as error:
            self._retry_or_end(run, error)
        except LongleafError as error:
            self._end(run, error)
        except Exception as error:  # a database that was away, say: it may well pass
            log.exception("job.crashed", job_id=job.id, kind=job.kind)
            self._retry_or_end(
                run,
                LongleafError(
                    f"Job {job.id} hit an unexpected {type(error).__name__}.",
                    remedy="The worker's log has the trace under this id.",
                    job_id=job.id,
                ),
            )
        else:
            if outcome == "done":
                self._announce(job, "succeeded")
            elif outcome == "postponed":
                self._yield(run, due=utc_now() + timedelta(seconds=POSTPONED_SECONDS))
            else:
                self._yield(run, due=None if outcome == "yielded" else outcome)

    def _handler(self, job: ClaimedJob) -> JobHandler:
        handler = self._handlers.get(job.kind)
        if handler is None:
            # It may pass: while versions change, another worker may know the kind.
            raise ModelUnavailable(
                f"This worker does not know jobs of kind {job.kind!r}.",
                remedy="Run the same version of Longleaf in all workers.",
                job_id=job.id,
                kind=job.kind,
            )
        return handler

    def _end(self, run: JobRun, error: LongleafError) -> None:
        job = run.job
        with self._database.write() as session:
            status = JobQueue(session).finish(job.id, run.owner, error=error)
        if status != "lost":
            self._announce(job, status, code=error.code if status == "failed" else JobCancelled.code)

    def _yield(self, run: JobRun, *, due: datetime | None) -> None:
        with self._database.write() as session:
            state = JobQueue(session).yield_job(run.job.id, run.owner, available_at=due)
        if (error := unwanted(state, run.job)) is not None:
            self._end(run, error)

    def _retry_or_end(self, run: JobRun, error: LongleafError) -> None:
        """Exponential backoff with jitter, so that many jobs do not return at once."""
        if run.job.attempt >= run.job.max_attempts:
            self._end(run, error)
            return
        delay = random.uniform(0.8, 1.0) * _pause_seconds(error, run.job.attempt)
        log.warning("job.retry", job_id=run.job.id, code=error.code, delay_seconds=round(delay, 2))
        due = utc_now() + timedelta(seconds=delay)
        with self._database.write() as session:
            state = JobQueue(session).retry(run.job.id, run.owner, available_at=due)
        if (unwanted_now := unwanted(state, run.job)) is not None:
            self._end(run, unwanted_now)

    def _announce(self, job: ClaimedJob, status: str, *, code: str = "") -> None:
        log.info("job.finished", job_id=job.id, status=status, code=code)
        self._events.publish(job.id, FINISHED_EVENT, {"status": status})


def _pause_seconds(error: LongleafError, attempt: int) -> float:
    """Before the next attempt: no longer than 8 s, since an upload has three for each of its files.

    An engine that is gone gets the minute that it takes to start again.
    """
    if isinstance(error, EngineUnavailable):
        return 15.0 * 3.0 ** min(attempt - 1, 1)
    return 2.0 ** min(attempt, 3)
