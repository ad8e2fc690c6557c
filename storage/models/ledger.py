from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from sqlalchemy import BigInteger, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from core.clock import utc_now
from storage.models.base import Base


class Price(Base):
    """What a stage of a model costs from `effective_from` on, per million tokens.

    `model` is a registry name or `*`, `model_revision` empty for all of the model's; a tenant's own
    price beats the list price. Of the stage `engine_hour` it is what the model's machine costs an hour.
    `announced_by` is the key that announced it; NULL: it is from the price book.
    """

    __tablename__ = "prices"
    __table_args__ = (UniqueConstraint("tenant_id", "model", "model_revision", "stage", "effective_from"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(default="")
    model: Mapped[str]
    model_revision: Mapped[str] = mapped_column(default="")
    stage: Mapped[str]
    price: Mapped[Decimal]
    currency: Mapped[str]
    announced_by: Mapped[str | None]
    effective_from: Mapped[datetime]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)


class LedgerEntry(Base):
    """One line of cost. Never updated, never deleted; a correction is a new line.

    `source` names the effect that was paid for (an answer, a batch of embeddings); a second line
    for the same (source, attempt, stage, price_stage, model) cannot be written. `stage` says what the work
    was for, `price_stage` whose price it has: a generator that condenses history has lines of stage
    `condense` for its uncached prompt, its cached prompt and what it wrote. `cost` is what the tokens cost at
    list price whether billed or not, `engine_cost` what their share of the machine cost; NULL where
    no rate was in force.

    `billed` is false for what came to nothing, and `reason` says why (`accounting/billing.py`). A line
    that corrects another has its id in `corrects_id`, and signed tokens and cost, so that sums are right.
    """

    __tablename__ = "ledger_entries"
    __table_args__ = (
        UniqueConstraint("source", "attempt", "stage", "price_stage", "model"),
        Index("ix_ledger_entries_report", "tenant_id", "created_at"),
        Index("ix_ledger_entries_job", "job_id"),
        Index(
            "ix_ledger_entries_corrects_id",
            "corrects_id",
            sqlite_where=text("corrects_id IS NOT NULL"),
            postgresql_where=text("corrects_id IS NOT NULL"),
        ),
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
    reason: Mapped[str | None]
    corrects_id: Mapped[str | None]
    engine_seconds: Mapped[float] = mapped_column(default=0.0)
    engine_cost: Mapped[Decimal | None]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)


class EngineSample(Base):
    """What an engine had counted since its process began, when it was looked at.

    Written only when something has changed since the sample before. `is_quiet`: it worked on nothing,
    and no job of ours ran, so that all it had counted was on the ledger.
    """

    __tablename__ = "engine_samples"
    __table_args__ = (UniqueConstraint("engine", "sampled_at"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    engine: Mapped[str]
    model: Mapped[str]
    started_at: Mapped[datetime]
    sampled_at: Mapped[datetime]
    prompt_tokens: Mapped[int] = mapped_column(BigInteger)
    cached_tokens: Mapped[int] = mapped_column(BigInteger)
    generation_tokens: Mapped[int] = mapped_column(BigInteger)
    busy_seconds: Mapped[float]
    is_quiet: Mapped[bool]


class EngineRequest(Base):
    """What a request to an engine has consumed so far, for a job that has not put it on the ledger yet.

    The row goes in the transaction that does. One that is left when no worker holds the job is of a
    worker that died.
    """

    __tablename__ = "engine_requests"

    id: Mapped[str] = mapped_column(primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), index=True)
    attempt: Mapped[int]
    model: Mapped[str]
    model_revision: Mapped[str]
    prompt_tokens: Mapped[int]
    cached_tokens: Mapped[int]
    completion_tokens: Mapped[int]
    engine_seconds: Mapped[float]
