from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from core.clock import utc_now
from storage.models.base import Base


class Answer(Base):
    """A question and what was answered. The job's status is the answer's.

    `outcome`: `answered` or `refused` (nothing in the documents answers), NULL until finished.
    `statements` are the answer's sentences with what supports each; `short_answer` is the phrase in
    one of its citations that says it shortest, if there is one; `samples` has what was sampled where
    several were asked for, and how far they agree; `steps` says how the passages
    came about (standalone question, queries, context, reranking, extraction), each step with what
    it used. `turn` counts a conversation's questions from 1.
    """

    __tablename__ = "answers"
    __table_args__ = (
        Index("ix_answers_listing", "tenant_id", "created_at", "id"),
        Index("ix_answers_newest", "created_at", "id"),
        UniqueConstraint("conversation_id", "turn"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    collection_id: Mapped[str] = mapped_column(ForeignKey("collections.id"))
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), unique=True)
    conversation_id: Mapped[str | None] = mapped_column(ForeignKey("conversations.id"))
    turn: Mapped[int | None]
    question: Mapped[str]
    parameters: Mapped[dict[str, Any]]
    mode: Mapped[str | None]
    outcome: Mapped[str | None]
    text: Mapped[str | None]
    statements: Mapped[list[dict[str, Any]]] = mapped_column(default=list)
    short_answer: Mapped[dict[str, Any] | None]
    samples: Mapped[dict[str, Any]] = mapped_column(default=dict)
    citations: Mapped[list[dict[str, Any]]] = mapped_column(default=list)
    passages: Mapped[list[dict[str, Any]]] = mapped_column(default=list)
    steps: Mapped[dict[str, Any]] = mapped_column(default=dict)
    warnings: Mapped[list[str]] = mapped_column(default=list)
    finish_reason: Mapped[str | None]
    model: Mapped[str | None]
    prompt_tokens: Mapped[int] = mapped_column(default=0)
    cached_tokens: Mapped[int] = mapped_column(default=0)
    completion_tokens: Mapped[int] = mapped_column(default=0)
    timings: Mapped[dict[str, Any]] = mapped_column(default=dict)
    cost: Mapped[Decimal | None]
    currency: Mapped[str | None]
    accepted_at: Mapped[datetime] = mapped_column(default=utc_now)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    finished_at: Mapped[datetime | None]


class AnswerTrace(Base):
    """How an answer came to be, token by token: see `GET /v1/answers/{id}/trace`.

    Apart from the answer, for it is large and seldom read. `redacted_at` is when its texts and tokens
    were taken out; what is left is numbers. `holds_text` says whether any of them are in it, so that
    those which are to be redacted are found without reading all.
    """

    __tablename__ = "answer_traces"
    __table_args__ = (
        Index("ix_answer_traces_text", "tenant_id", "holds_text"),
        Index("ix_answer_traces_created_at", "created_at"),
    )

    answer_id: Mapped[str] = mapped_column(ForeignKey("answers.id"), primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    trace: Mapped[dict[str, Any]]
    holds_text: Mapped[bool] = mapped_column(default=False)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    redacted_at: Mapped[datetime | None]
