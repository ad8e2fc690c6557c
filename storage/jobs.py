"""Jobs: made and listed by their tenant, held and ended by workers and the relay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from core.clock import utc_now
from core.errors import Conflict, LongleafError, NotFound
from core.ids import CollectionId, JobId, KeyId, TenantId, new_id
from core.priority import BACKGROUND, INTERACTIVE
from storage.job_states import FINAL_STATUSES, move_job
from storage.models import Job
from storage.outbox import Outbox
from storage.paging import Page, PageRequest, paginate

Queue = Literal["ingest", "interactive", "batch"]
WORKER_LOST = "worker_lost"
"""The code of a job that was parked: its workers died as often as it may be started."""
QUEUES: tuple[Queue, ...] = ("interactive", "ingest", "batch")


class JobRepository:
    """Sees only its tenant's jobs."""

    def __init__(self, session: Session, tenant_id: TenantId) -> None:
        self._session = session
        self._tenant_id = tenant_id

    def create(
        self,
        kind: str,
        *,
        queue: Queue,
        payload: dict[str, Any],
        collection_id: CollectionId | None,
        key_id: KeyId | None,
        max_attempts: int,
        available_at: datetime | None = None,
        part_of: JobId | None = None,
    ) -> Job:
        """A queued job, announced when the transaction commits, not before `available_at`.

        `part_of`: the job that makes it; what a schedule began with that, it began with this.
        """
        whole = None if part_of is None else self.get(part_of)
        job = Job(
            id=new_id("job"),
            tenant_id=self._tenant_id,
            key_id=key_id,
            collection_id=collection_id,
            schedule_id=whole and whole.schedule_id,
            schedule_run_id=whole and whole.schedule_run_id,
            kind=kind,
            queue=queue,
            status="queued",
            payload=payload,
            progress={},
            attempt=0,
            max_attempts=max_attempts,
        )
        self._session.add(job)
        self._session.flush()
        Outbox(self._session).announce(job, available_at=available_at)
        return job

    def get(self, job_id: JobId) -> Job:
        """Raises `NotFound` for an unknown or foreign id."""
        found = self._session.scalar(select(Job).where(Job.id == job_id, Job.tenant_id == self._tenant_id))
        if found is None:
            raise NotFound(
                f"There is no job {job_id}.", remedy="List yours with GET /v1/jobs.", job_id=job_id
            )
        return found

    def has_queued(self, kind: str, collection_id: CollectionId) -> bool:
        """Whether such a job waits to be claimed."""
        query = select(Job.id).where(
            Job.tenant_id == self._tenant_id,
            Job.collection_id == collection_id,
            Job.kind == kind,
            Job.status == "queued",
        )
        return self._session.scalar(query.limit(1)) is not None

    def list_page(
        self, page: PageRequest, *, status: str | None = None, kind: str | None = None
    ) -> Page[Job]:
        query = select(Job).where(Job.tenant_id == self._tenant_id)
        if status is not None:
            query = query.where(Job.status == status)
        if kind is not None:
            query = query.where(Job.kind == kind)
        return paginate(self._session, query, Job, page)

    def request_cancel(self, job_id: JobId, *, at: datetime | None = None) -> Job:
        """Stop it: at once while queued, at its next checkpoint while running.

        Raises:
            Conflict: it has finished.
        """
        moment = at or utc_now()
        job = self.get(job_id)
        self._session.execute(
            update(Job)
            .where(Job.id == job_id, Job.status.in_(("queued", "running")))
            .values(cancel_requested_at=moment)
        )
        move_job(self._session, job_id, "cancelled", Job.status == "queued", finished_at=moment)
        # Looked at only now: a worker may have finished it since it was read.
        self._session.refresh(job)
        if job.status in FINAL_STATUSES and job.status != "cancelled":
            raise Conflict(
                f"Job {job_id} has already {job.status}.",
                remedy="A finished job cannot be cancelled.",
                job_id=job_id,
                status=job.status,
            )
        return job


@dataclass(frozen=True, slots=True)
class ClaimedJob:
    """What a worker needs to know of the job it holds."""

    id: JobId
    tenant_id: TenantId
    key_id: KeyId | None
    collection_id: CollectionId | None
    kind: str
    queue: str
    payload: dict[str, Any]
    attempt: int
    max_attempts: int
    created_at: datetime
    claimed_at: datetime

    @property
    def priority(self) -> int:
        """Of its work in the engine: nobody waits for what is in the queue `batch`, or part of such work."""
        is_background = self.queue == "batch" or bool(self.payload.get("background"))
        return BACKGROUND if is_background else INTERACTIVE


LeaseState = Literal["held", "cancelled", "lost"]


class JobQueue:
    """All tenants' jobs, as workers and the relay see them: by id, never searched by content."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def claim_job(self, job_id: JobId, owner: str, *, lease: timedelta) -> ClaimedJob | None:
        """Hold the job for `lease`; None where it is not (or no longer) to be run.

        Delivery is at least once, so a second message for a job finds it taken and does nothing.
        """
        now = utc_now()
        job = move_job(
            self._session,
            job_id,
            "running",
            attempt=Job.attempt + 1,
            lease_owner=owner,
            lease_expires_at=now + lease,
            started_at=now,
        )
        if job is None:
            return None
        return ClaimedJob(
            id=JobId(job.id),
            tenant_id=TenantId(job.tenant_id),
            key_id=KeyId(job.key_id) if job.key_id else None,
            collection_id=CollectionId(job.collection_id) if job.collection_id else None,
            kind=job.kind,
            queue=job.queue,
            payload=job.payload,
            attempt=job.attempt,
            max_attempts=job.max_attempts,
            created_at=job.created_at,
            claimed_at=now,
        )

    def extend_lease(self, job_id: JobId, owner: str, *, lease: timedelta) -> LeaseState:
        """Say that the worker lives; hear whether the job is still wanted."""
        result = self._session.execute(
            update(Job)
            .where(Job.id == job_id, Job.lease_owner == owner, Job.status == "running")
            .values(lease_expires_at=utc_now() + lease)
        )
        if result.rowcount == 0:  # type: ignore[attr-defined]
            return "lost"
        cancelled = self._session.scalar(select(Job.cancel_requested_at).where(Job.id == job_id))
        return "held" if cancelled is None else "cancelled"

    def confirm_lease(self, job_id: JobId, owner: str) -> LeaseState:
        """Inside the transaction that makes a job's effect visible: may it still?"""
        job = self._session.scalar(
            select(Job).where(Job.id == job_id).with_for_update().execution_options(populate_existing=True)
        )
        if job is None or job.lease_owner != owner or job.status != "running":
            return "lost"
        return "held" if job.cancel_requested_at is None else "cancelled"

    def set_progress(self, job_id: JobId, owner: str, progress: dict[str, Any]) -> None:
        self._session.execute(
            update(Job).where(Job.id == job_id, Job.lease_owner == owner).values(progress=progress)
        )

    def finish(self, job_id: JobId, owner: str, *, error: LongleafError | None = None) -> str:
        """End the job this worker holds; the final status, or `lost`. Cancel beats completion."""
        state = self.confirm_lease(job_id, owner)
        if state == "lost":
            return "lost"
        if state == "cancelled":
            move_job(self._session, job_id, "cancelled")
            return "cancelled"
        if error is None:
            move_job(self._session, job_id, "succeeded")
            return "succeeded"
        move_job(self._session, job_id, "failed", error_code=error.code, error_detail=str(error))
        return "failed"

    def yield_job(self, job_id: JobId, owner: str, *, available_at: datetime | None = None) -> LeaseState:
        """Put a job that has more to do behind the others of its queue, unless it is not `held`.

        Args:
            available_at: not to be run before then.
        """
        return self._requeue(job_id, owner, attempt=Job.attempt - 1, available_at=available_at)

    def retry(self, job_id: JobId, owner: str, *, available_at: datetime) -> LeaseState:
        """Try again later, unless it is not `held`; the attempt stays counted."""
        return self._requeue(job_id, owner, attempt=Job.attempt, available_at=available_at)

    def _requeue(
        self, job_id: JobId, owner: str, *, attempt: Any, available_at: datetime | None = None
    ) -> LeaseState:
        state = self.confirm_lease(job_id, owner)
        if state != "held":
            return state
        job = move_job(
            self._session, job_id, "queued", lease_owner=None, lease_expires_at=None, attempt=attempt
        )
        if job is not None:
            Outbox(self._session).announce(job, available_at=available_at)
        return state

    def take_up_expired(self) -> Sequence[Job]:
        """Queue again what dead workers left running, or fail it when its attempts are used up.

        Returns the jobs that ended here, failed or cancelled.
        """
        expired = self._session.scalars(
            select(Job)
            .where(Job.status == "running", Job.lease_expires_at < utc_now())
            .with_for_update(skip_locked=True)
        ).all()
        return [ended for job in expired if (ended := self._take_up(job)) is not None]

    def _take_up(self, job: Job) -> Job | None:
        """The job if it has ended by this."""
        job_id = JobId(job.id)
        if job.cancel_requested_at is not None:
            return move_job(self._session, job_id, "cancelled")
        if job.attempt >= job.max_attempts:
            return move_job(
                self._session,
                job_id,
                "failed",
                error_code=WORKER_LOST,
                error_detail=f"The worker of job {job.id} died {job.attempt} times while running it. "
                "Look at the worker's log; the input may exhaust its memory.",
            )
        queued = move_job(self._session, job_id, "queued", lease_owner=None, lease_expires_at=None)
        if queued is not None:
            Outbox(self._session).announce(queued)
        return None
