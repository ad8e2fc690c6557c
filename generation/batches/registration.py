"""Accepting a batch: one transaction makes its row, its lines and its job.

Used by the API and by whatever ends jobs, so it imports no model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy.orm import Session

from accounting.holds import reserve
from accounting.money import format_amount
from core.clock import utc_now
from core.errors import EmptyInput, TooLarge
from core.ids import AnswerId, BatchId, CollectionId, JobId, TenantId
from generation.question_sets.runner import cancel_answers
from generation.questions import QuestionParameters
from storage.answers import AnswerRepository
from storage.batches import NOTHING_SPENT, BatchRepository, NewItem, StoppedBy
from storage.collections import CollectionRepository
from storage.jobs import JobRepository
from storage.models import Batch
from storage.webhooks import notify
from tenancy.principal import Principal

BATCH_KIND = "batch"
MAX_BATCH_QUESTIONS = 50_000
INVALID_LINE = "invalid_line"

_DEFAULTS = QuestionParameters().as_json()


@dataclass(frozen=True, slots=True)
class BatchLine:
    """A question of the file. One with a `problem` is kept to be told of, and not asked."""

    custom_id: str
    question: str
    parameters: QuestionParameters
    problem: str = ""

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> BatchLine:
        """What `as_json` gave."""
        parameters = QuestionParameters.of_json(_DEFAULTS | stored["parameters"])
        return cls(stored["custom_id"], stored["question"], parameters, stored.get("problem", ""))

    def as_json(self) -> dict[str, Any]:
        given = {
            "custom_id": self.custom_id,
            "question": self.question,
            "parameters": _given(self.parameters),
        }
        return given | {"problem": self.problem} if self.problem else given


def register_batch(
    session: Session,
    principal: Principal,
    collection_id: CollectionId,
    lines: Sequence[BatchLine],
    *,
    name: str,
    max_cost: Decimal | None = None,
    expires_at: datetime | None = None,
    max_attempts: int,
) -> Batch:
    """A queued batch, in the caller's transaction.

    Raises:
        BudgetExceeded: a budget that it counts against has nothing left.
        NotFound: no such collection of the tenant.
        EmptyInput: there is no line.
        TooLarge: there are more than `MAX_BATCH_QUESTIONS`.
    """
    _require_countable(len(lines), name)
    CollectionRepository(session, principal.tenant_id).get(collection_id)
    job = JobRepository(session, principal.tenant_id).create(
        BATCH_KIND,
        queue="batch",
        payload={},
        collection_id=collection_id,
        key_id=principal.key_id,
        max_attempts=max_attempts,
    )
    reserve(session, job)
    return BatchRepository(session, principal.tenant_id).create(
        JobId(job.id),
        collection_id,
        _items(lines),
        name=name,
        max_cost=max_cost,
        expires_at=expires_at,
    )


def close_batch(session: Session, tenant_id: TenantId, job_id: JobId, *, code: str, detail: str) -> None:
    """What is left to do for a batch whose job ended without success.

    What was answered stays; what is being answered is cancelled. Does nothing a second time.
    """
    batches = BatchRepository(session, tenant_id)
    batch = batches.find_by_job(job_id)
    if batch is None or batch.finished_at is not None:
        return
    identifier = BatchId(batch.id)
    end_open_lines(session, tenant_id, identifier, code=code, detail=detail)
    end_batch(session, tenant_id, identifier, at=utc_now())


def reopen_batch(session: Session, tenant_id: TenantId, job_id: JobId) -> None:
    """Have a closed batch go on with the lines that have no answer; invalid ones stay so.

    Its time, where it has one, begins anew.
    """
    batches = BatchRepository(session, tenant_id)
    batch = batches.find_by_job(job_id)
    assert batch is not None  # made in the job's own transaction, and never deleted
    expires_at = utc_now() + (batch.expires_at - batch.created_at) if batch.expires_at else None
    batches.reopen(BatchId(batch.id), expires_at=expires_at, except_code=INVALID_LINE)


def end_batch(
    session: Session,
    tenant_id: TenantId,
    batch_id: BatchId,
    *,
    at: datetime,
    stopped_by: StoppedBy | None = None,
) -> None:
    """Say that all its lines are done, to the tenant's webhooks too. Its job has ended in this transaction."""
    batches = BatchRepository(session, tenant_id)
    batches.complete(batch_id, at=at, stopped_by=stopped_by)
    notify(session, tenant_id, "batch.finished", _event(session, tenant_id, batches.get(batch_id)))


def end_open_lines(
    session: Session, tenant_id: TenantId, batch_id: BatchId, *, code: str, detail: str
) -> None:
    """Have the lines that are answered done so, and all others with this error."""
    batches = BatchRepository(session, tenant_id)
    positions = {AnswerId(item.answer_id or ""): item.position for item in batches.list_asked(batch_id)}
    cancel_answers(session, tenant_id, list(positions))
    for answer_id, (_, job) in AnswerRepository(session, tenant_id).with_jobs(list(positions)).items():
        if job.status == "succeeded":
            batches.settle(batch_id, positions[answer_id], "completed")
    batches.fail_open(batch_id, {"code": code, "detail": detail})


def _event(session: Session, tenant_id: TenantId, batch: Batch) -> dict[str, Any]:
    batch_id, path = BatchId(batch.id), f"/v1/batches/{batch.id}"
    spent = BatchRepository(session, tenant_id).spending([batch_id]).get(batch_id, NOTHING_SPENT)
    return {
        "batch_id": batch.id,
        "job_id": batch.job_id,
        "collection_id": batch.collection_id,
        "status": JobRepository(session, tenant_id).get(JobId(batch.job_id)).status,
        "stopped_by": batch.stopped_by,
        "num_questions": batch.num_questions,
        "num_completed": batch.num_completed,
        "num_failed": batch.num_failed,
        "cost": format_amount(spent.cost),
        "currency": spent.currency,
        "links": {"batch": path, "output": f"{path}/output", "errors": f"{path}/errors"},
    }


def _require_countable(num_lines: int, name: str) -> None:
    if not num_lines:
        raise EmptyInput(
            f"{name} holds no question.", remedy='A line is {"custom_id": "…", "question": "…"}.', name=name
        )
    if num_lines > MAX_BATCH_QUESTIONS:
        raise TooLarge(
            f"{name} holds {num_lines:,} questions; at most {MAX_BATCH_QUESTIONS:,} are one batch.",
            remedy="Split it.",
            num_questions=num_lines,
        )


def _items(lines: Sequence[BatchLine]) -> list[NewItem]:
    """Lines to store, ranked so that questions about the same documents follow one another.

    Their prompts share what the engine has computed of those documents.
    """
    parameters = [_given(line.parameters) for line in lines]
    filters = [json.dumps(given.get("filter"), sort_keys=True) for given in parameters]
    first_of = {text: i for i, text in reversed(list(enumerate(filters)))}
    order = sorted(range(len(lines)), key=lambda i: (first_of[filters[i]], i))
    ranks = {position: rank for rank, position in enumerate(order)}
    return [
        NewItem(
            custom_id=line.custom_id,
            question=line.question,
            parameters=parameters[i],
            rank=ranks[i],
            error={"code": INVALID_LINE, "detail": line.problem} if line.problem else None,
        )
        for i, line in enumerate(lines)
    ]


def _given(parameters: QuestionParameters) -> dict[str, Any]:
    """What differs from the defaults: fifty thousand lines store nothing else."""
    return {name: value for name, value in parameters.as_json().items() if value != _DEFAULTS[name]}
