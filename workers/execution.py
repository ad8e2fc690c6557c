"""Running one job: claim, keep the lease alive, hand to its pipeline, end it."""

from __future__ import annotations

import os
import random
import socket
import threading
import uuid
from collections.abc import Mapping
from datetime import timedelta
from types import TracebackType
from typing import Protocol

import structlog

from core.cancellation import Checkpoint
from core.clock import utc_now
from core.errors import JobCancelled, LeaseLost, LongleafError, ModelUnavailable
from core.ids import JobId
from core.settings import WorkerSettings
from storage.database import Database
from storage.events import EventBus
from storage.job_run import JobRun, RunOutcome, raise_unless_held
from storage.jobs import ClaimedJob, JobQueue, LeaseState

log = structlog.get_logger()

FINISHED_EVENT = "finished"


class JobHandler(Protocol):
    """A pipeline that can run jobs of one kind."""

    def run(self, run: JobRun) -> RunOutcome:
        """Do the work and end the job, or yield."""
        ...

    def abandon(self, job: ClaimedJob, error: LongleafError) -> None:
        """The job ended without success: close what it left open."""
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
        return lambda: raise_unless_held(self._state, self._job.id)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _beat(self) -> None:
        lease = timedelta(seconds=self._settings.lease_seconds)
        # The first look comes early, so that a job cancelled just after its claim stops soon.
        while not self._stop.wait(self._settings.heartbeat_seconds):
            try:
                with self._database.write() as session:
                    self._state = JobQueue(session).extend_lease(self._job.id, self._owner, lease=lease)
            except Exception as error:  # a database that is away for a moment must not end the beat
                log.warning("lease.beat_failed", job_id=self._job.id, error=str(error))
            if self._state == "lost":
                return


class JobExecutor:
    """Runs jobs by id. Safe to call twice for one id: the second call finds it claimed."""

    def __init__(
        self,
        database: Database,
        events: EventBus,
        handlers: Mapping[str, JobHandler],
        settings: WorkerSettings,
    ) -> None:
        self._database = database
        self._events = events
        self._handlers = handlers
        self._settings = settings

    def execute(self, job_id: JobId) -> None:
        """Run the job to its end, or to its next slice. Never raises for what a job can do wrong."""
        owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        lease = timedelta(seconds=self._settings.lease_seconds)
        with self._database.write() as session:
            job = JobQueue(session).claim_job(job_id, owner, lease=lease)
        if job is None:
            log.info("job.not_claimed", job_id=job_id)
            return
        log.info("job.started", job_id=job_id, kind=job.kind, attempt=job.attempt)
        with Lease(self._database, job, owner, self._settings) as checkpoint:
            self._run(JobRun(job=job, owner=owner, checkpoint=checkpoint))

    def _run(self, run: JobRun) -> None:
        job = run.job
        try:
            outcome = self._handlers[job.kind].run(run)
        except LeaseLost:
            log.warning("job.lease_lost", job_id=job.id)
        except JobCancelled as error:
            self._end(run, error)
        except ModelUnavailable as error:
            if job.attempt < job.max_attempts:
                self._retry(run, error)
            else:
                self._end(run, error)
        except LongleafError as error:
            self._end(run, error)
        except Exception as error:
            log.exception("job.crashed", job_id=job.id, kind=job.kind)
            self._end(
                run,
                LongleafError(
                    f"Job {job.id} hit an unexpected {type(error).__name__}.",
                    remedy="The worker's log has the trace under this id.",
                    job_id=job.id,
                ),
            )
        else:
            if outcome == "yielded":
                with self._database.write() as session:
                    JobQueue(session).yield_job(job.id, run.owner)
            else:
                self._announce(job, "succeeded")

    def _end(self, run: JobRun, error: LongleafError) -> None:
        with self._database.write() as session:
            status = JobQueue(session).finish(run.job.id, run.owner, error=error)
        if status == "lost":
            return
        log.info("job.ended", job_id=run.job.id, status=status, code=error.code)
        self._handlers[run.job.kind].abandon(run.job, error)
        self._announce(run.job, status)

    def _retry(self, run: JobRun, error: LongleafError) -> None:
        """Exponential backoff with full jitter, so that many jobs do not return at once."""
        delay = random.uniform(0.5, 1.0) * min(60.0, 2.0**run.job.attempt)
        log.warning("job.retry", job_id=run.job.id, code=error.code, delay_seconds=round(delay, 2))
        with self._database.write() as session:
            JobQueue(session).retry(run.job.id, run.owner, available_at=utc_now() + timedelta(seconds=delay))

    def _announce(self, job: ClaimedJob, status: str) -> None:
        log.info("job.finished", job_id=job.id, status=status)
        self._events.publish(job.id, FINISHED_EVENT, {"status": status})
