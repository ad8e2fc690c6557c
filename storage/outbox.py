"""Announcements of jobs, written with the jobs themselves and sent by the relay."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from core.clock import utc_now
from core.ids import new_id
from storage.database import request_wake
from storage.models import Job, OutboxMessage


class Outbox:
    """All tenants' announcements; only the job store and the relay use it."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def announce(self, job: Job, *, available_at: datetime | None = None) -> None:
        """Have the job's queue told of it after this transaction commits, not before `available_at`."""
        self._session.add(
            OutboxMessage(
                id=new_id("out"),
                job_id=job.id,
                queue=job.queue,
                kind=job.kind,
                available_at=available_at or utc_now(),
            )
        )
        request_wake(self._session)

    def claim_unsent(self, now: datetime, *, limit: int = 100) -> Sequence[OutboxMessage]:
        """Messages that are due, locked until the transaction ends, oldest first."""
        return self._session.scalars(
            select(OutboxMessage)
            .where(OutboxMessage.sent_at.is_(None), OutboxMessage.available_at <= now)
            .order_by(OutboxMessage.id)
            .limit(limit)
            .with_for_update(skip_locked=True)
        ).all()

    def forget_heard(self) -> int:
        """Delete sent messages of jobs that wait no more, so that the table does not grow; how many."""
        waiting = select(Job.id).where(Job.status == "queued")
        result = self._session.execute(
            delete(OutboxMessage)
            .where(OutboxMessage.sent_at.is_not(None), OutboxMessage.job_id.not_in(waiting))
            .execution_options(synchronize_session=False)
        )
        return int(result.rowcount)  # type: ignore[attr-defined]

    def next_due_at(self) -> datetime | None:
        """When the earliest unsent message becomes due."""
        return self._session.scalar(
            select(OutboxMessage.available_at)
            .where(OutboxMessage.sent_at.is_(None))
            .order_by(OutboxMessage.available_at)
            .limit(1)
        )

    def list_unheard(self, queue: str, announced_before: datetime) -> Sequence[Job]:
        """Queued jobs whose every announcement was sent before then, yet that nobody has claimed.

        They are waiting in the broker, or the broker lost them: the relay asks it which.
        """
        announced = (
            select(OutboxMessage.job_id, func.max(OutboxMessage.sent_at).label("last_sent_at"))
            .join(Job, Job.id == OutboxMessage.job_id)
            .where(Job.status == "queued", Job.queue == queue)
            .group_by(OutboxMessage.job_id)
            .having(func.count() == func.count(OutboxMessage.sent_at))
            .subquery()
        )
        return self._session.scalars(
            select(Job)
            .join(announced, announced.c.job_id == Job.id)
            .where(announced.c.last_sent_at < announced_before)
            .order_by(Job.id)
        ).all()
