from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from core.clock import utc_now
from storage.models.base import Base


class Batch(Base):
    """A file of questions asked of a collection as one job, whose status is the batch's.

    `stopped_by`: `expired` or `max_cost` where it ended before all its questions were asked.
    """

    __tablename__ = "batches"
    __table_args__ = (Index("ix_batches_listing", "tenant_id", "created_at", "id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    collection_id: Mapped[str] = mapped_column(ForeignKey("collections.id"))
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), unique=True)
    name: Mapped[str]
    max_cost: Mapped[Decimal | None]
    num_questions: Mapped[int]
    num_completed: Mapped[int] = mapped_column(default=0)
    num_failed: Mapped[int] = mapped_column(default=0)
    stopped_by: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    expires_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]


class BatchItem(Base):
    """One line of a batch's file, in the file's order by `position`, asked in the order of `rank`.

    `outcome`: `completed` or `failed`, NULL while it is open. `error` says why it has no answer at all,
    as an invalid line has none. `parameters` are those that differ from the defaults.
    """

    __tablename__ = "batch_items"
    __table_args__ = (Index("ix_batch_items_open", "batch_id", "outcome", "rank"),)

    batch_id: Mapped[str] = mapped_column(ForeignKey("batches.id", ondelete="CASCADE"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    rank: Mapped[int]
    custom_id: Mapped[str]
    question: Mapped[str]
    parameters: Mapped[dict[str, Any]] = mapped_column(default=dict)
    answer_id: Mapped[str | None] = mapped_column(ForeignKey("answers.id", ondelete="SET NULL"))
    outcome: Mapped[str | None]
    error: Mapped[dict[str, Any] | None]
