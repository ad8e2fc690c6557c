from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from sqlalchemy import BigInteger, ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from core.clock import utc_now
from storage.models.base import Base


class Price(Base):
    """What a stage of a model costs from `effective_from` on, per million tokens.

    `model` is a registry name or `*`; a tenant's own price beats the list price.
    """

    __tablename__ = "prices"
    __table_args__ = (UniqueConstraint("tenant_id", "model", "stage", "effective_from"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(default="")
    model: Mapped[str]
    stage: Mapped[str]
    price_per_million: Mapped[Decimal]
    currency: Mapped[str]
    effective_from: Mapped[datetime]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)


class LedgerEntry(Base):
    """One line of cost. Never updated, never deleted; a correction is a new line.

    `source` names the effect that was paid for (an answer, a batch of embeddings); a second line
    for the same (source, attempt, stage, price_stage, model) cannot be written. `stage` says what the work
    was for, `price_stage` whose price it has: a generator that condenses history has lines of stage
    `condense` for its uncached prompt, its cached prompt and what it wrote. `billed` is false for what a failed
    attempt burned. `cost` is what the tokens cost at list price whether billed or not.
    """

    __tablename__ = "ledger_entries"
    __table_args__ = (
        UniqueConstraint("source", "attempt", "stage", "price_stage", "model"),
        Index("ix_ledger_entries_report", "tenant_id", "created_at"),
        Index("ix_ledger_entries_job", "job_id"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    key_id: Mapped[str | None]
    job_id: Mapped[str | None]
    collection_id: Mapped[str | None]
    document_id: Mapped[str | None]
    source: Mapped[str]
    attempt: Mapped[int]
    stage: Mapped[str]
    price_stage: Mapped[str]
    model: Mapped[str]
    model_revision: Mapped[str]
    num_tokens: Mapped[int] = mapped_column(BigInteger)
    price_per_million: Mapped[Decimal]
    cost: Mapped[Decimal]
    currency: Mapped[str]
    billed: Mapped[bool] = mapped_column(default=True)
    engine_seconds: Mapped[float] = mapped_column(default=0.0)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
