"""Batches of questions and their lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from sqlalchemy import func, select

from core.ids import AnswerId, BatchId, CollectionId, JobId, new_id
from core.usage import TokenUsage
from storage.composites import READ_PARTS, CompositeRepository
from storage.models import Answer, Batch, BatchItem

ItemOutcome = Literal["completed", "failed"]
StoppedBy = Literal["expired", "max_cost"]


@dataclass(frozen=True, slots=True)
class NewItem:
    """A line of a batch's file; with an `error` it is not asked."""

    custom_id: str
    question: str
    parameters: dict[str, Any]
    rank: int
    error: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Spending:
    """What a batch's answers took; `currency` is empty while none of them has a cost."""

    usage: TokenUsage
    cost: Decimal
    currency: str


NOTHING_SPENT = Spending(TokenUsage(), Decimal(0), "")


class BatchRepository(CompositeRepository[Batch, BatchItem, BatchId]):
    """Sees only its tenant's batches; a part for each line."""

    model, part = Batch, BatchItem
    noun, plural = "batch", "batches"

    def create(
        self,
        job_id: JobId,
        collection_id: CollectionId,
        items: Sequence[NewItem],
        *,
        name: str,
        max_cost: Decimal | None,
        expires_at: datetime | None,
    ) -> Batch:
        """A batch with its lines, none of them asked yet."""
        batch = Batch(
            id=new_id("batch"),
            tenant_id=self._tenant_id,
            collection_id=collection_id,
            job_id=job_id,
            name=name,
            max_cost=max_cost,
            num_questions=len(items),
            num_completed=0,
            num_failed=sum(item.error is not None for item in items),
            expires_at=expires_at,
        )
        self._session.add(batch)
        self._session.flush()
        rows = [
            {
                "batch_id": batch.id,
                "position": position,
                "tenant_id": self._tenant_id,
                "rank": item.rank,
                "custom_id": item.custom_id,
                "question": item.question,
                "parameters": item.parameters,
                "outcome": "failed" if item.error else None,
                "error": item.error,
            }
            for position, item in enumerate(items)
        ]
        self._add_parts(rows)
        return batch

    def list_ended(
        self, batch_id: BatchId, outcome: ItemOutcome, *, first: int = 0, limit: int = READ_PARTS
    ) -> Sequence[BatchItem]:
        """At most `limit` lines that ended so from position `first` on, in order."""
        return self._list_parts(batch_id, BatchItem.outcome == outcome, first=first, limit=limit)

    def list_open(self, batch_id: BatchId, *, limit: int) -> Sequence[BatchItem]:
        """The first `limit` lines that are not done, in the order in which they are asked."""
        query = self._parts(batch_id, BatchItem.outcome.is_(None))
        return self._session.scalars(query.order_by(BatchItem.rank).limit(limit)).all()

    def list_asked(self, batch_id: BatchId) -> Sequence[BatchItem]:
        """The lines that are being answered."""
        return self._list_parts(batch_id, BatchItem.outcome.is_(None), BatchItem.answer_id.is_not(None))

    def set_answer(self, batch_id: BatchId, position: int, answer_id: AnswerId) -> None:
        """Remember which answer is the line's."""
        self._set_part(batch_id, BatchItem.position == position, answer_id=answer_id)

    def settle(self, batch_id: BatchId, position: int, outcome: ItemOutcome) -> None:
        """Have an open line done, and counted once."""
        is_it = BatchItem.position == position, BatchItem.outcome.is_(None)
        self._count(batch_id, outcome, self._set_part(batch_id, *is_it, outcome=outcome))

    def fail_open(self, batch_id: BatchId, error: dict[str, Any]) -> None:
        """Have every line that is open end with the error."""
        is_open = BatchItem.outcome.is_(None)
        num_failed = self._set_part(batch_id, is_open, outcome="failed", error=error)
        self._count(batch_id, "failed", num_failed)

    def complete(self, batch_id: BatchId, *, at: datetime, stopped_by: StoppedBy | None = None) -> None:
        self._set(batch_id, finished_at=at, stopped_by=stopped_by)

    def reopen(self, batch_id: BatchId, *, expires_at: datetime | None, except_code: str) -> None:
        """Have the lines that failed be asked again, but for those whose error has that code."""
        num_reopened = self._set_part(
            batch_id,
            BatchItem.outcome == "failed",
            func.coalesce(BatchItem.error["code"].as_string(), "") != except_code,
            outcome=None,
            error=None,
            answer_id=None,
        )
        self._count(batch_id, "failed", -num_reopened)
        self._set(batch_id, finished_at=None, stopped_by=None, expires_at=expires_at)

    def spending(self, batch_ids: Sequence[BatchId]) -> dict[BatchId, Spending]:
        """What the answers of each took so far; batches without an answer are absent."""
        rows = self._session.execute(
            select(
                BatchItem.batch_id,
                func.sum(Answer.prompt_tokens),
                func.sum(Answer.cached_tokens),
                func.sum(Answer.completion_tokens),
                func.sum(Answer.cost),
                func.max(Answer.currency),
            )
            .join(Answer, Answer.id == BatchItem.answer_id)
            .where(BatchItem.batch_id.in_(batch_ids), BatchItem.tenant_id == self._tenant_id)
            .group_by(BatchItem.batch_id)
        )
        return {
            BatchId(batch_id): Spending(
                TokenUsage(
                    prompt_tokens=int(prompt), cached_tokens=int(cached), completion_tokens=int(completion)
                ),
                cost or Decimal(0),
                currency or "",
            )
            for batch_id, prompt, cached, completion, cost, currency in rows
        }

    def _count(self, batch_id: BatchId, outcome: ItemOutcome, num_more: int) -> None:
        column = Batch.num_completed if outcome == "completed" else Batch.num_failed
        self._set(batch_id, **{column.key: column + num_more})
