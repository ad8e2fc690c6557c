from __future__ import annotations

from datetime import datetime

from pydantic import Field

from api.schemas.base import Body, View
from storage.queues import PausedQueue


class Pause(View):
    """That no job begins, or none of one tenant."""

    tenant_id: str | None = Field(description="Whose jobs do not begin; null: nobody's do.")
    reason: str = Field(description="What whoever paused it said.")
    paused_at: datetime = Field(description="Since when.")

    @classmethod
    def of(cls, paused: PausedQueue) -> Pause:
        return cls(tenant_id=paused.tenant_id, reason=paused.pause.reason, paused_at=paused.pause.paused_at)


class Queue(View):
    """A queue of jobs, over all tenants."""

    name: str = Field(description="`interactive`, `ingest` or `batch`.")
    num_queued: int = Field(description="Jobs that wait.")
    num_running: int = Field(description="Jobs that run.")
    pauses: list[Pause] = Field(description="Empty where its jobs begin as usual.")


class QueueTarget(Body):
    """Whose jobs are meant."""

    tenant_id: str | None = Field(None, max_length=100, description="Only this tenant's; null: all.")


class NewPause(QueueTarget):
    """Why a queue is paused, and for whom."""

    reason: str = Field("", max_length=500, description="For those who wonder why nothing moves.")
