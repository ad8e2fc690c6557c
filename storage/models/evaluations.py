from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from core.clock import utc_now
from storage.models.base import Base


class Evaluation(Base):
    """Questions with known answers, asked of a collection under one setting. Its status is its job's.

    `parameters` are a question's, the same for all. `report` has the means once it is finished.
    """

    __tablename__ = "evaluations"
    __table_args__ = (Index("ix_evaluations_listing", "tenant_id", "created_at", "id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    collection_id: Mapped[str] = mapped_column(ForeignKey("collections.id"))
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), unique=True)
    name: Mapped[str]
    parameters: Mapped[dict[str, Any]]
    num_questions: Mapped[int]
    num_done: Mapped[int] = mapped_column(default=0)
    report: Mapped[dict[str, Any]] = mapped_column(default=dict)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    finished_at: Mapped[datetime | None]


class EvaluationItem(Base):
    """One question of an evaluation, its gold answer and evidence, and what came of it.

    `metrics` is empty and `error` NULL until it was asked.
    """

    __tablename__ = "evaluation_items"

    evaluation_id: Mapped[str] = mapped_column(
        ForeignKey("evaluations.id", ondelete="CASCADE"), primary_key=True
    )
    position: Mapped[int] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    question: Mapped[dict[str, Any]]
    result: Mapped[dict[str, Any]] = mapped_column(default=dict)
    metrics: Mapped[dict[str, Any]] = mapped_column(default=dict)
    error: Mapped[dict[str, Any] | None]
    cost: Mapped[Decimal | None]
