"""A job in a worker's hands, as the pipelines see it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy.orm import Session

from core.cancellation import Checkpoint
from core.errors import JobCancelled, LeaseLost, LongleafError
from core.ids import JobId
from storage.jobs import ClaimedJob, JobQueue, LeaseState, deadline_exceeded

RunOutcome = Literal["done", "yielded", "postponed"] | datetime
"""`done`: the run ended its job. `yielded`: there is more to do, in a later slice. `postponed`: there is,
but what it needs is taken now, so that it had better come back in a while; a moment: not before then."""


@dataclass(frozen=True, slots=True)
class JobRun:
    """`checkpoint` between steps; `confirm` or `succeed` in the transaction of an effect.

    All raise `JobCancelled`, `DeadlineExceeded` or `LeaseLost` when the job is no longer this worker's, which rolls
    the transaction back: an effect becomes visible only together with a held lease.
    """

    job: ClaimedJob
    owner: str
    checkpoint: Checkpoint

    def confirm(self, session: Session) -> None:
        raise_unless_held(JobQueue(session).confirm_lease(self.job.id, self.owner), self.job)

    def succeed(self, session: Session) -> None:
        """End the job as succeeded, with the rest of this transaction."""
        status = JobQueue(session).finish(self.job.id, self.owner)
        if status != "succeeded":
            states: dict[str, LeaseState] = {"cancelled": "cancelled", "failed": "overdue"}
            raise_unless_held(states.get(status, "lost"), self.job)

    def set_progress(self, session: Session, progress: dict[str, Any]) -> None:
        JobQueue(session).set_progress(self.job.id, self.owner, progress)


def job_cancelled(job_id: JobId) -> JobCancelled:
    return JobCancelled(f"Job {job_id} was cancelled.", job_id=job_id)


def raise_unless_held(state: LeaseState, job: ClaimedJob) -> None:
    if state == "lost":
        raise LeaseLost(f"Job {job.id} was taken up by another worker.", job_id=job.id)
    if (error := unwanted(state, job)) is not None:
        raise error


def unwanted(state: LeaseState, job: ClaimedJob) -> LongleafError | None:
    """Why a job that this worker holds is to be ended without success; None where it is not."""
    if state == "cancelled":
        return job_cancelled(job.id)
    return deadline_exceeded(job.id, job.deadline_at) if state == "overdue" else None
