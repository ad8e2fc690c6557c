"""A job in a worker's hands, as the pipelines see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy.orm import Session

from core.cancellation import Checkpoint
from core.errors import JobCancelled, LeaseLost
from core.ids import JobId
from storage.jobs import ClaimedJob, JobQueue, LeaseState

RunOutcome = Literal["done", "yielded", "postponed"]
"""`done`: the run ended its job. `yielded`: there is more to do, in a later slice. `postponed`: there is,
but what it needs is taken now, so that it had better come back in a while."""


@dataclass(frozen=True, slots=True)
class JobRun:
    """`checkpoint` between steps; `confirm` or `succeed` in the transaction of an effect.

    Both raise `JobCancelled` or `LeaseLost` when the job is no longer this worker's, which rolls
    the transaction back: an effect becomes visible only together with a held lease.
    """

    job: ClaimedJob
    owner: str
    checkpoint: Checkpoint

    def confirm(self, session: Session) -> None:
        raise_unless_held(JobQueue(session).confirm_lease(self.job.id, self.owner), self.job.id)

    def succeed(self, session: Session) -> None:
        """End the job as succeeded, with the rest of this transaction."""
        status = JobQueue(session).finish(self.job.id, self.owner)
        if status != "succeeded":
            raise_unless_held("cancelled" if status == "cancelled" else "lost", self.job.id)

    def set_progress(self, session: Session, progress: dict[str, Any]) -> None:
        JobQueue(session).set_progress(self.job.id, self.owner, progress)


def job_cancelled(job_id: JobId) -> JobCancelled:
    return JobCancelled(f"Job {job_id} was cancelled.", job_id=job_id)


def raise_unless_held(state: LeaseState, job_id: JobId) -> None:
    if state == "cancelled":
        raise job_cancelled(job_id)
    if state == "lost":
        raise LeaseLost(f"Job {job_id} was taken up by another worker.", job_id=job_id)
