"""Announcements of jobs, written with the jobs themselves and sent by the relay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, delete, func, select
from sqlalchemy.orm import Session

from core.clock import utc_now
from core.ids import TenantId, new_id
from core.priority import BACKGROUND, INTERACTIVE
from storage.database import request_wake
from storage.models import Job, OutboxMessage
from storage.queues import Queue, is_paused


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits in a queue of one tenant's and one priority's."""

    tenant_id: TenantId
    priority: int


def is_next(priority: int) -> bool:
    """Whether a message has the priority of those whose worker died: see `Outbox.announce`."""
    return priority in (INTERACTIVE - 1, BACKGROUND - 1)


class Outbox:
    """All tenants' announcements; only the job store and the relay use it."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def announce(self, job: Job, *, available_at: datetime | None = None, is_next: bool = False) -> None:
        """Have the job's queue told of it after this transaction commits, not before `available_at`.

        Args:
            is_next: before all of its kind that wait: it had its turn, and its worker died.
        """
        self._session.add(
            OutboxMessage(
                id=new_id("out"),
                tenant_id=job.tenant_id,
                job_id=job.id,
                queue=job.queue,
                kind=job.kind,
                priority=job.priority - is_next,
                available_at=available_at or utc_now(),
            )
        )
        request_wake(self._session)

    def claim_unsent(self, now: datetime, *, limit: int = 100) -> Sequence[OutboxMessage]:
        """Messages that are due and may be sent, locked until the transaction ends, oldest first."""
        return self._claim(_sendable(now).order_by(OutboxMessage.id).limit(limit))

    def claim_waiting(
        self, now: datetime, queue: Queue, waiting: Waiting, *, limit: int
    ) -> Sequence[OutboxMessage]:
        """The oldest of these, locked until the transaction ends."""
        query = _sendable(now).where(
            OutboxMessage.queue == queue,
            OutboxMessage.tenant_id == waiting.tenant_id,
            OutboxMessage.priority == waiting.priority,
        )
        return self._claim(query.order_by(OutboxMessage.id).limit(limit))

    def count_waiting(self, now: datetime, queue: Queue) -> dict[Waiting, int]:
        """How many messages of the queue could be sent now."""
        groups = (OutboxMessage.tenant_id, OutboxMessage.priority)
        query = (
            _sendable(now)
            .with_only_columns(*groups, func.count())
            .where(OutboxMessage.queue == queue)
            .group_by(*groups)
        )
        return _counted(self._session.execute(query))

    def count_in_flight(self, queue: Queue) -> dict[Waiting, int]:
        """How many jobs of the queue run, or were sent and wait in the broker."""
        groups = (Job.tenant_id, Job.priority)
        running = (
            select(*groups, func.count()).where(Job.queue == queue, Job.status == "running").group_by(*groups)
        )
        sent = (
            select(*groups, func.count(Job.id.distinct()))
            .join(OutboxMessage, OutboxMessage.job_id == Job.id)
            .where(Job.queue == queue, Job.status == "queued", OutboxMessage.sent_at.is_not(None))
            .where(~_has_unsent())
            .group_by(*groups)
        )
        counts = _counted(self._session.execute(running))
        for waiting, count in _counted(self._session.execute(sent)).items():
            counts[waiting] = counts.get(waiting, 0) + count
        return counts

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
        """When the earliest message that may be sent becomes due."""
        return self._session.scalar(
            select(OutboxMessage.available_at)
            .where(OutboxMessage.sent_at.is_(None), ~is_paused(OutboxMessage.queue, OutboxMessage.tenant_id))
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

    def _claim(self, query: Select[OutboxMessage]) -> Sequence[OutboxMessage]:
        return self._session.scalars(query.with_for_update(skip_locked=True)).all()


def _sendable(now: datetime) -> Select[OutboxMessage]:
    return select(OutboxMessage).where(
        OutboxMessage.sent_at.is_(None),
        OutboxMessage.available_at <= now,
        ~is_paused(OutboxMessage.queue, OutboxMessage.tenant_id),
    )


def _has_unsent() -> Any:
    unsent = select(OutboxMessage.id).where(OutboxMessage.job_id == Job.id, OutboxMessage.sent_at.is_(None))
    return unsent.correlate(Job).exists()


def _counted(rows: Any) -> dict[Waiting, int]:
    return {Waiting(TenantId(tenant_id), priority): count for tenant_id, priority, count in rows}
