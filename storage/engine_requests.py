"""What engines have done for jobs and nobody has put on the ledger yet."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from core.ids import JobId
from core.usage import TokenUsage
from storage.insertion import insert_if_absent
from storage.models import EngineRequest


@dataclass(frozen=True, slots=True)
class RequestNote:
    """A request of a job's attempt, and what it has consumed so far."""

    id: str
    job_id: JobId
    attempt: int
    model: str
    model_revision: str
    usage: TokenUsage


def note_request(session: Session, note: RequestNote) -> None:
    """Write down what the request has consumed, in place of what was known of it before."""
    usage = note.usage
    counts = {
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens,
        "completion_tokens": usage.completion_tokens,
        "engine_seconds": usage.engine_seconds,
    }
    known = session.execute(update(EngineRequest).where(EngineRequest.id == note.id).values(counts))
    if known.rowcount:  # type: ignore[attr-defined]
        return
    whose = {"id": note.id, "job_id": note.job_id, "attempt": note.attempt}
    model = {"model": note.model, "model_revision": note.model_revision}
    insert_if_absent(session, EngineRequest, whose | model | counts)


def list_requests(session: Session, job_id: JobId) -> Sequence[RequestNote]:
    """The job's, of all its attempts."""
    rows = session.scalars(
        select(EngineRequest).where(EngineRequest.job_id == job_id).order_by(EngineRequest.id)
    )
    return [
        RequestNote(
            id=row.id,
            job_id=JobId(row.job_id),
            attempt=row.attempt,
            model=row.model,
            model_revision=row.model_revision,
            usage=TokenUsage(row.prompt_tokens, row.cached_tokens, row.completion_tokens, row.engine_seconds),
        )
        for row in rows
    ]


def forget_requests(session: Session, job_ids: Collection[str]) -> None:
    """What the jobs' requests have consumed is on the ledger now."""
    session.execute(delete(EngineRequest).where(EngineRequest.job_id.in_(job_ids)))
