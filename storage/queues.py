"""Queues as an operator sees them: how much waits and runs in each, and which are paused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import ColumnElement, delete, exists, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from core.errors import NotFound
from core.ids import TenantId
from storage.insertion import insert_if_absent
from storage.models import QueuePause

Queue = Literal["ingest", "interactive", "batch", "delivery"]
QUEUES: tuple[Queue, ...] = ("interactive", "ingest", "batch", "delivery")
EVERYBODY = "*"


@dataclass(frozen=True, slots=True)
class PausedQueue:
    """`tenant_id`: whose jobs do not begin; None: nobody's do."""

    queue: Queue
    tenant_id: TenantId | None
    pause: QueuePause


class QueuePauses:
    """Of all tenants; they are rows, so they outlive every process and the broker."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def pause(self, queue: Queue, tenant_id: TenantId | None = None, *, reason: str = "") -> None:
        """Have no job of the queue begin; those that run end, or yield. Again: the first reason stays."""
        row = {"queue": queue, "scope": tenant_id or EVERYBODY, "reason": reason}
        insert_if_absent(self._session, QueuePause, row)

    def resume(self, queue: Queue, tenant_id: TenantId | None = None) -> None:
        """Let its jobs begin again; nothing happens where they may."""
        self._session.execute(
            delete(QueuePause).where(QueuePause.queue == queue, QueuePause.scope == (tenant_id or EVERYBODY))
        )

    def list_all(self) -> Sequence[PausedQueue]:
        rows = self._session.scalars(select(QueuePause).order_by(QueuePause.queue, QueuePause.scope))
        return [
            PausedQueue(parse_queue(row.queue), None if row.scope == EVERYBODY else TenantId(row.scope), row)
            for row in rows
        ]


def parse_queue(name: str) -> Queue:
    """Raises `NotFound` where there is no queue of that name."""
    for queue in QUEUES:
        if queue == name:
            return queue
    raise NotFound(f"There is no queue {name[:50]!r}.", remedy=f"The queues are {', '.join(QUEUES)}.")


def is_paused(
    queue: InstrumentedAttribute[str], tenant_id: InstrumentedAttribute[str]
) -> ColumnElement[bool]:
    """Whether a row's job, by its columns, may not begin now."""
    return exists().where(QueuePause.queue == queue, QueuePause.scope.in_((EVERYBODY, tenant_id)))
