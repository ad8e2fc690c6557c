from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from core.clock import utc_now
from core.priority import INTERACTIVE
from storage.models.base import Base


class Job(Base):
    """Work to do. `status`: `queued running succeeded failed cancelled`.

    The row is the state; Celery only carries its id. While `running`, the worker named by
    `lease_owner` holds it until `lease_expires_at`. `version` counts the row's changes, so that who
    follows the job knows which one was seen last. `priority`: lower goes first (core/priority.py). What a
    schedule began, and what that began in turn, names the schedule and its run.
    """

    __tablename__ = "jobs"
    __table_args__ = (
        Index("ix_jobs_listing", "tenant_id", "created_at", "id"),
        Index("ix_jobs_expiry", "status", "lease_expires_at"),
        Index("ix_jobs_schedule", "schedule_id", "status"),
        Index("ix_jobs_schedule_run", "schedule_run_id"),
        Index(
            "ix_jobs_deadline",
            "deadline_at",
            sqlite_where=text("finished_at IS NULL AND deadline_at IS NOT NULL"),
            postgresql_where=text("finished_at IS NULL AND deadline_at IS NOT NULL"),
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    key_id: Mapped[str | None] = mapped_column(ForeignKey("api_keys.id"))
    collection_id: Mapped[str | None] = mapped_column(ForeignKey("collections.id"))
    schedule_id: Mapped[str | None]
    schedule_run_id: Mapped[str | None]
    kind: Mapped[str]
    queue: Mapped[str]
    priority: Mapped[int] = mapped_column(default=INTERACTIVE, server_default="0")
    status: Mapped[str] = mapped_column(default="queued")
    payload: Mapped[dict[str, Any]] = mapped_column(default=dict)
    progress: Mapped[dict[str, Any]] = mapped_column(default=dict)
    attempt: Mapped[int] = mapped_column(default=0)
    max_attempts: Mapped[int]
    error_code: Mapped[str | None]
    error_detail: Mapped[str | None]
    cancel_requested_at: Mapped[datetime | None]
    deadline_at: Mapped[datetime | None]
    version: Mapped[int] = mapped_column(default=1, server_default="1")
    lease_owner: Mapped[str | None]
    lease_expires_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]


class OutboxMessage(Base):
    """A job to announce to Celery, written in the transaction that made or re-queued the job."""

    __tablename__ = "outbox"
    __table_args__ = (
        Index(
            "ix_outbox_unsent",
            "id",
            sqlite_where=text("sent_at IS NULL"),
            postgresql_where=text("sent_at IS NULL"),
        ),
        Index(
            "ix_outbox_waiting",
            "queue",
            "tenant_id",
            "priority",
            "id",
            sqlite_where=text("sent_at IS NULL"),
            postgresql_where=text("sent_at IS NULL"),
        ),
        Index("ix_outbox_job_id", "job_id"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"))
    queue: Mapped[str]
    kind: Mapped[str]
    priority: Mapped[int] = mapped_column(default=INTERACTIVE)
    available_at: Mapped[datetime] = mapped_column(default=utc_now)
    sent_at: Mapped[datetime | None]


class QueuePause(Base):
    """While the row is there, no job of the queue begins: none at all, or none of one tenant.

    `scope` is the tenant's id, or `*` for everybody.
    """

    __tablename__ = "queue_pauses"

    queue: Mapped[str] = mapped_column(primary_key=True)
    scope: Mapped[str] = mapped_column(primary_key=True)
    reason: Mapped[str] = mapped_column(default="")
    paused_at: Mapped[datetime] = mapped_column(default=utc_now)


class UploadedFile(Base):
    """One file of an upload and what became of it.

    `status`: `queued parsing embedding ready duplicate failed`; a `duplicate` has the document
    that was there before. Files that were refused while streaming in have no blob. `reused_tokens` is what
    need not be embedded, since the tenant had its vectors, and `reused_model` whose vectors these are.
    """

    __tablename__ = "uploaded_files"
    __table_args__ = (
        UniqueConstraint("job_id", "position"),
        Index(
            "ix_uploaded_files_reused",
            "tenant_id",
            "created_at",
            sqlite_where=text("reused_tokens > 0"),
            postgresql_where=text("reused_tokens > 0"),
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    collection_id: Mapped[str] = mapped_column(ForeignKey("collections.id"))
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"))
    position: Mapped[int]
    name: Mapped[str]
    content_hash: Mapped[str]
    num_bytes: Mapped[int] = mapped_column(BigInteger)
    status: Mapped[str] = mapped_column(default="queued")
    document_id: Mapped[str | None] = mapped_column(ForeignKey("documents.id"), index=True)
    attempts: Mapped[int] = mapped_column(default=0)
    pages_done: Mapped[int] = mapped_column(default=0)
    pages_total: Mapped[int] = mapped_column(default=0)
    chunks_done: Mapped[int] = mapped_column(default=0)
    chunks_total: Mapped[int] = mapped_column(default=0)
    reused_tokens: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")
    reused_model: Mapped[str] = mapped_column(default="", server_default="")
    reused_revision: Mapped[str] = mapped_column(default="", server_default="")
    error_code: Mapped[str | None]
    error_detail: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
