"""Jobs: made and listed by their tenant, held and ended by workers and the relay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import and_, or_, select, update
from sqlalchemy.orm import Session

from core.clock import utc_now
from core.errors import Conflict, DeadlineExceeded, LongleafError, NotFound
from core.ids import CollectionId, JobId, KeyId, TenantId, new_id
from core.priority import BACKGROUND, INTERACTIVE
from storage.job_states import FINAL_STATUSES, move_job
from storage.models import Job, OutboxMessage
from storage.outbox import Outbox
from storage.paging import Page, PageRequest, paginate
from storage.queues import Queue, is_paused

_SOON = timedelta(seconds=1)
WORKER_LOST = "worker_lost"
"""The code of a job that was parked: its workers died as often as it may be started."""


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
        deadline_at: datetime | None = None,
        background: bool = False,
        part_of: JobId | None = None,
    ) -> Job:
        """A queued job, announced when the transaction commits, not before `available_at`.

        Args:
            deadline_at: if it has not ended by then, it fails.
            background: nobody waits for it, whatever its queue; in `batch` nobody ever does.
            part_of: the job that makes it; what a schedule began with that, it began with this.
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
            priority=BACKGROUND if background or queue == "batch" else INTERACTIVE,
            deadline_at=deadline_at,
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
        self,
        page: PageRequest,
        *,
        status: str | None = None,
        kind: str | None = None,
        parked: bool = False,
    ) -> Page[Job]:
        """Newest first; `parked`: only those given up because their workers died or crashed each time."""
        query = select(Job).where(Job.tenant_id == self._tenant_id)
        if parked:
            query = query.where(Job.error_code.in_((WORKER_LOST, LongleafError.code)))
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
            .values(cancel_requested_at=moment, version=Job.version + 1)
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

    def require_retriable(self, job: Job) -> None:
        """Raises `Conflict` unless it failed or was cancelled."""
        if job.status not in ("failed", "cancelled"):
            raise _not_retriable(job)

    def retry(self, job_id: JobId, *, more_attempts: int) -> Job:
        """Queue an ended job again. Its attempts go on counting, so that each keeps its own ledger lines.

        A deadline is as far away again as it first was.

        Raises:
            Conflict: it has succeeded, or has not ended.
        """
        now, job = utc_now(), self.get(job_id)
        retried = move_job(
            self._session,
            job_id,
            "queued",
            Job.status != "running",
            max_attempts=Job.attempt + more_attempts,
            deadline_at=now + (job.deadline_at - job.created_at) if job.deadline_at else None,
            **dict.fromkeys(("error_code", "error_detail", "cancel_requested_at", "finished_at")),
        )
        if retried is None:
            raise _not_retriable(job)
        Outbox(self._session).announce(retried)
        return retried


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
    priority: int
    created_at: datetime
    claimed_at: datetime
    deadline_at: datetime | None


LeaseState = Literal["held", "cancelled", "overdue", "lost"]


class JobQueue:
    """All tenants' jobs, as workers and the relay see them: by id, never searched by content."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def claim_job(self, job_id: JobId, owner: str, *, lease: timedelta) -> ClaimedJob | None:
        """Hold the job for `lease`; None where it is not (or no longer, or not now) to be run.

        Delivery is at least once, so a second message for a job finds it taken and does nothing. One
        whose queue was paused meanwhile is announced again, and one whose time is over ends.
        """
        now = utc_now()
        job = move_job(
            self._session,
            job_id,
            "running",
            ~is_paused(Job.queue, Job.tenant_id),
            or_(Job.deadline_at.is_(None), Job.deadline_at > now),
            attempt=Job.attempt + 1,
            lease_owner=owner,
            lease_expires_at=now + lease,
            started_at=now,
        )
        if job is None:
            self._put_off(job_id, now)
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
            priority=job.priority,
            created_at=job.created_at,
            claimed_at=now,
            deadline_at=job.deadline_at,
        )

    def _put_off(self, job_id: JobId, now: datetime) -> None:
        """Why a job was not claimed: it is held already or over, unless it is one of two reasons."""
        job = self._session.get(Job, job_id)
        if job is None or job.status != "queued":
            return
        if job.deadline_at is not None and job.deadline_at <= now:
            self._expire(job)
        else:
            Outbox(self._session).announce(job)

    def _expire(self, job: Job) -> Job | None:
        error = deadline_exceeded(JobId(job.id), job.deadline_at)
        return move_job(
            self._session,
            JobId(job.id),
            "failed",
            Job.status == job.status,
            error_code=error.code,
            error_detail=str(error),
        )

    def end_overdue(self, *, running_before: datetime) -> Sequence[Job]:
        """Fail what was not done in time and still waits; what runs ends itself, unless its worker has
        not noticed although its deadline was before `running_before`. Returns the jobs that ended here."""
        overdue = self._session.scalars(
            select(Job)
            .where(
                Job.finished_at.is_(None),
                Job.deadline_at.is_not(None),
                or_(
                    and_(Job.status == "queued", Job.deadline_at <= utc_now()),
                    and_(Job.status == "running", Job.deadline_at <= running_before),
                ),
            )
            .with_for_update(key_share=True, skip_locked=True)
        ).all()
        return [ended for job in overdue if (ended := self._expire(job)) is not None]

    def is_awaited(self, queue: Queue, *, besides: TenantId) -> bool:
        """Whether a job of another tenant waits in the queue for a worker."""
        query = select(OutboxMessage.id).join(Job, Job.id == OutboxMessage.job_id)
        waiting = query.where(
            OutboxMessage.queue == queue,
            OutboxMessage.tenant_id != besides,
            OutboxMessage.available_at <= utc_now(),
            Job.status == "queued",
        )
        return self._session.scalar(waiting.limit(1)) is not None

    def extend_lease(self, job_id: JobId, owner: str, *, lease: timedelta) -> LeaseState:
        """Say that the worker lives; hear whether the job is still wanted."""
        result = self._session.execute(
            update(Job)
            .where(Job.id == job_id, Job.lease_owner == owner, Job.status == "running")
            .values(lease_expires_at=utc_now() + lease)
        )
        if result.rowcount == 0:  # type: ignore[attr-defined]
            return "lost"
        return _state_of(self._session.get_one(Job, job_id, populate_existing=True))

    def confirm_lease(self, job_id: JobId, owner: str) -> LeaseState:
        """Inside the transaction that makes a job's effect visible: may it still?"""
        # `key_share`: a question that ends may name this job in the outbox meanwhile. Without it each
        # could wait for the other, where this transaction cancels that question.
        job = self._session.scalar(
            select(Job)
            .where(Job.id == job_id)
            .with_for_update(key_share=True)
            .execution_options(populate_existing=True)
        )
        if job is None or job.lease_owner != owner or job.status != "running":
            return "lost"
        return _state_of(job)

    def set_progress(self, job_id: JobId, owner: str, progress: dict[str, Any]) -> None:
        self._session.execute(
            update(Job)
            .where(Job.id == job_id, Job.lease_owner == owner)
            .values(progress=progress, version=Job.version + 1)
        )

    def finish(self, job_id: JobId, owner: str, *, error: LongleafError | None = None) -> str:
        """End the job this worker holds; the final status, or `lost`.

        Cancel beats completion, and so does a deadline that has passed.
        """
        state = self.confirm_lease(job_id, owner)
        if state == "lost":
            return "lost"
        if state == "cancelled":
            move_job(self._session, job_id, "cancelled")
            return "cancelled"
        if state == "overdue":
            job = self._session.get_one(Job, job_id)
            self._expire(job)
            return "failed"
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

    def wake(self, job_id: JobId) -> None:
        """Have a postponed job come back now: what it waits for has happened."""
        job = self._session.get(Job, job_id, populate_existing=True)
        if job is None or job.status in FINAL_STATUSES:
            return
        # One that runs may have looked a moment before, and is about to be postponed.
        due = utc_now() + _SOON if job.status == "running" else None
        Outbox(self._session).announce(job, available_at=due)

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
            self._session,
            job_id,
            "queued",
            Job.status == "running",
            lease_owner=None,
            lease_expires_at=None,
            attempt=attempt,
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
            .with_for_update(key_share=True, skip_locked=True)
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
        queued = move_job(
            self._session,
            job_id,
            "queued",
            Job.status == "running",
            lease_owner=None,
            lease_expires_at=None,
        )
        if queued is not None:
            Outbox(self._session).announce(queued, is_next=True)
        return None


def deadline_exceeded(job_id: JobId, deadline_at: datetime | None) -> DeadlineExceeded:
    moment = "its deadline" if deadline_at is None else deadline_at.isoformat(timespec="seconds")
    return DeadlineExceeded(
        f"Job {job_id} was not done by {moment}.",
        remedy="Allow it more time, or ask when less is queued.",
        job_id=job_id,
    )


def _state_of(job: Job) -> LeaseState:
    if job.cancel_requested_at is not None:
        return "cancelled"
    is_overdue = job.deadline_at is not None and job.deadline_at <= utc_now()
    return "overdue" if is_overdue else "held"


def _not_retriable(job: Job) -> Conflict:
    return Conflict(
        f"Job {job.id} is {job.status}.",
        remedy="Only a job that failed or was cancelled can be tried again.",
        job_id=job.id,
        status=job.status,
    )
