"""What came of a batch's lines, as OpenAI's result files have it, or as a table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy.orm import Session

from api.answer_views import show_answers
from api.problems import status_of_code
from api.schemas.answers import Answer
from core.csv_cells import harmless
from core.ids import AnswerId, BatchId, TenantId
from storage.answers import AnswerRepository
from storage.batches import BatchRepository, ItemOutcome
from storage.database import Database
from storage.models import BatchItem

_PAGE = 100
_HEADER = ("custom_id", "question", "outcome", "answer", "short_answer", "sources", "cost", "currency")
_ERROR_HEADER = ("custom_id", "question", "error_code", "error")

Result = tuple[BatchItem, Answer | None]


def as_jsonl(
    database: Database, tenant_id: TenantId, batch_id: BatchId, outcome: ItemOutcome
) -> Iterator[str]:
    """The lines done so with the outcome, in the order of the file, some hundred at a time."""
    for page in _pages(database, tenant_id, batch_id, outcome):
        yield "".join(json.dumps(_line(*result), ensure_ascii=False) + "\n" for result in page)


def as_csv(database: Database, tenant_id: TenantId, batch_id: BatchId, outcome: ItemOutcome) -> Iterator[str]:
    """The same as a table for people."""
    is_output = outcome == "completed"
    yield _rows([_HEADER if is_output else _ERROR_HEADER])
    for page in _pages(database, tenant_id, batch_id, outcome):
        yield _rows([_output_row(*result) if is_output else _error_row(*result) for result in page])


def _pages(
    database: Database, tenant_id: TenantId, batch_id: BatchId, outcome: ItemOutcome
) -> Iterator[list[Result]]:
    first = 0
    while True:
        with database.read() as session:
            batches = BatchRepository(session, tenant_id)
            items = batches.list_ended(batch_id, outcome, first=first, limit=_PAGE)
            answers = _answers(session, tenant_id, items)
        if not items:
            return
        yield [(item, answers.get(item.answer_id or "")) for item in items]
        first = items[-1].position + 1


def _answers(session: Session, tenant_id: TenantId, items: Sequence[BatchItem]) -> dict[str, Answer]:
    found = AnswerRepository(session, tenant_id).with_jobs(
        [AnswerId(item.answer_id) for item in items if item.answer_id is not None]
    )
    return {each.id: each for each in show_answers(session, tenant_id, [row for row, _ in found.values()])}


def _line(item: BatchItem, answer: Answer | None) -> dict[str, Any]:
    error = _error(item, answer)
    response = None
    if answer is not None and item.error is None:
        response = {
            "status_code": status_of_code(error["code"]) if error else 200,
            "request_id": answer.id,
            "body": answer.model_dump(mode="json"),
        }
    return {
        "id": f"batch_req_{item.batch_id.removeprefix('batch_')}_{item.position}",
        "custom_id": item.custom_id,
        "response": response,
        "error": error,
    }


def _error(item: BatchItem, answer: Answer | None) -> dict[str, str] | None:
    if item.error is not None:
        return {"code": item.error["code"], "message": item.error["detail"]}
    if answer is None:
        return {"code": "answer_deleted", "message": f"The answer to {item.custom_id!r} was deleted since."}
    if answer.status == "succeeded":
        return None
    if answer.error is None:
        return {"code": "job_cancelled", "message": f"Answer {answer.id} was {answer.status}."}
    return {"code": answer.error.code, "message": answer.error.detail}


def _output_row(item: BatchItem, answer: Answer | None) -> tuple[str, ...]:
    if answer is None:
        return (harmless(item.custom_id), harmless(item.question), "deleted", "", "", "", "", "")
    sources = "\n".join(
        f"[{each.number}] {each.document_name}, p. {each.first_page}: {each.quote}"
        for each in answer.citations
    )
    return (
        harmless(item.custom_id),
        harmless(item.question),
        answer.outcome or "",
        harmless(answer.text or ""),
        harmless(answer.short_answer.text if answer.short_answer else ""),
        sources,
        answer.cost.amount if answer.cost else "",
        answer.cost.currency if answer.cost else "",
    )


def _error_row(item: BatchItem, answer: Answer | None) -> tuple[str, ...]:
    error = _error(item, answer) or {"code": "", "message": ""}
    return (harmless(item.custom_id), harmless(item.question), error["code"], harmless(error["message"]))


def _rows(rows: list[tuple[str, ...]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerows(rows)
    return buffer.getvalue()
