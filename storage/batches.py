"""Batches of questions and their lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session

from core.errors import NotFound
from core.ids import AnswerId, BatchId, CollectionId, JobId, TenantId, new_id
from core.usage import TokenUsage
from storage.models import Answer, Batch, BatchItem
from storage.paging import Page, PageRequest, paginate

ItemOutcome = Literal["completed", "failed"]
StoppedBy = Literal["expired", "max_cost"]

_INSERT_ROWS = 500


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


class BatchRepository:
    """Sees only its tenant's batches."""

    def __init__(self, session: Session, tenant_id: TenantId) -> None:
        self._session = session
        self._tenant_id = tenant_id

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
        for i in range(0, len(items), _INSERT_ROWS):
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
                for position, item in enumerate(items[i : i + _INSERT_ROWS], start=i)
            ]
            self._session.execute(insert(BatchItem), rows)
        return batch

    def get(self, batch_id: BatchId) -> Batch:
        """Raises `NotFound` for an unknown or foreign id."""
        found = self._session.scalar(
            select(Batch)
            .where(Batch.id == batch_id, Batch.tenant_id == self._tenant_id)
            .execution_options(populate_existing=True)
        )
        if found is None:
            raise NotFound(
                f"There is no batch {batch_id}.", remedy="List yours with GET /v1/batches.", batch_id=batch_id
            )
        return found

    def find_by_job(self, job_id: JobId) -> Batch | None:
        return self._session.scalar(
            select(Batch).where(Batch.job_id == job_id, Batch.tenant_id == self._tenant_id)
        )

    def list_page(self, page: PageRequest, *, collection_id: CollectionId | None = None) -> Page[Batch]:
        query = select(Batch).where(Batch.tenant_id == self._tenant_id)
        if collection_id is not None:
            query = query.where(Batch.collection_id == collection_id)
        return paginate(self._session, query, Batch, page)

    def list_items(
        self,
        batch_id: BatchId,
        *,
        outcome: ItemOutcome | None = None,
        first: int = 0,
        limit: int | None = None,
    ) -> Sequence[BatchItem]:
        """At most `limit` lines from position `first` on, in order."""
        query = select(BatchItem).where(
            BatchItem.batch_id == batch_id,
            BatchItem.tenant_id == self._tenant_id,
            BatchItem.position >= first,
        )
        if outcome is not None:
            query = query.where(BatchItem.outcome == outcome)
        return self._session.scalars(query.order_by(BatchItem.position).limit(limit)).all()

    def list_open(self, batch_id: BatchId, *, limit: int) -> Sequence[BatchItem]:
        """The first `limit` lines that are not done, in the order in which they are asked."""
        return self._session.scalars(
            select(BatchItem)
            .where(
                BatchItem.batch_id == batch_id,
                BatchItem.tenant_id == self._tenant_id,
                BatchItem.outcome.is_(None),
            )
            .order_by(BatchItem.rank)
            .limit(limit)
        ).all()

    def list_asked(self, batch_id: BatchId) -> Sequence[BatchItem]:
        """The lines that are being answered."""
        return self._session.scalars(
            select(BatchItem).where(
                BatchItem.batch_id == batch_id,
                BatchItem.tenant_id == self._tenant_id,
                BatchItem.outcome.is_(None),
                BatchItem.answer_id.is_not(None),
            )
        ).all()

    def set_answer(self, batch_id: BatchId, position: int, answer_id: AnswerId) -> None:
        """Remember which answer is the line's."""
        self._session.execute(
            update(BatchItem)
            .where(
                BatchItem.batch_id == batch_id,
                BatchItem.position == position,
                BatchItem.tenant_id == self._tenant_id,
            )
            .values(answer_id=answer_id)
        )

    def settle(self, batch_id: BatchId, position: int, outcome: ItemOutcome) -> None:
        """Have an open line done, and counted once."""
        done = self._session.execute(
            update(BatchItem)
            .where(
                BatchItem.batch_id == batch_id,
                BatchItem.position == position,
                BatchItem.tenant_id == self._tenant_id,
                BatchItem.outcome.is_(None),
            )
            .values(outcome=outcome)
        )
        self._count(batch_id, outcome, done.rowcount)  # type: ignore[attr-defined]

    def fail_open(self, batch_id: BatchId, error: dict[str, Any]) -> None:
        """Have every line that is open end with the error."""
        failed = self._session.execute(
            update(BatchItem)
            .where(
                BatchItem.batch_id == batch_id,
                BatchItem.tenant_id == self._tenant_id,
                BatchItem.outcome.is_(None),
            )
            .values(outcome="failed", error=error)
        )
        self._count(batch_id, "failed", failed.rowcount)  # type: ignore[attr-defined]

    def complete(self, batch_id: BatchId, *, at: datetime, stopped_by: StoppedBy | None = None) -> None:
        self._set(batch_id, finished_at=at, stopped_by=stopped_by)

    def reopen(self, batch_id: BatchId, *, expires_at: datetime | None, except_code: str) -> None:
        """Have the lines that failed be asked again, but for those whose error has that code."""
        reopened = self._session.execute(
            update(BatchItem)
            .where(
                BatchItem.batch_id == batch_id,
                BatchItem.tenant_id == self._tenant_id,
                BatchItem.outcome == "failed",
                func.coalesce(BatchItem.error["code"].as_string(), "") != except_code,
            )
            .values(outcome=None, error=None, answer_id=None)
            .execution_options(synchronize_session=False)
        )
        self._count(batch_id, "failed", -reopened.rowcount)  # type: ignore[attr-defined]
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

    def _set(self, batch_id: BatchId, **values: Any) -> None:
        self._session.execute(
            update(Batch).where(Batch.id == batch_id, Batch.tenant_id == self._tenant_id).values(**values)
        )
