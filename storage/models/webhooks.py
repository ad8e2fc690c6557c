from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from core.clock import utc_now
from storage.models.base import Base


class Webhook(Base):
    """A URL that a tenant wants told of events.

    `secret` is kept as it is, for it must sign; who can read it here can read the documents too,
    and it lets nobody in: it only vouches to the tenant's own receiver. `old_secret` signs beside it
    until `old_secret_until`. While a receiver fails, nothing is sent before `held_until`.
    """

    __tablename__ = "webhooks"
    __table_args__ = (Index("ix_webhooks_listing", "tenant_id", "created_at", "id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    url: Mapped[str]
    description: Mapped[str]
    event_types: Mapped[list[str]]
    enabled: Mapped[bool]
    disabled_reason: Mapped[str | None]
    secret: Mapped[str]
    old_secret: Mapped[str | None]
    old_secret_until: Mapped[datetime | None]
    failing_since: Mapped[datetime | None]
    held_until: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)


class WebhookDelivery(Base):
    """An event on its way to a webhook. Its status is its job's; a redelivery is a new job of it.

    `attempts` is the log; `num_tries` counts those since `began_at`, when it was last asked for.
    """

    __tablename__ = "webhook_deliveries"
    __table_args__ = (Index("ix_webhook_deliveries_listing", "webhook_id", "created_at", "id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    webhook_id: Mapped[str] = mapped_column(ForeignKey("webhooks.id", ondelete="CASCADE"))
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), unique=True)
    event_type: Mapped[str]
    payload: Mapped[dict[str, Any]]
    attempts: Mapped[list[dict[str, Any]]] = mapped_column(default=list)
    num_tries: Mapped[int] = mapped_column(default=0)
    began_at: Mapped[datetime] = mapped_column(default=utc_now)
    next_attempt_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
