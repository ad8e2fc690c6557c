"""What is true once the dust has settled, read from SQL and held against what was promised."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from bench.chaos_load import ANSWER_TOKENS, Promises
from core.clock import utc_now
from storage.job_states import FINAL_STATUSES
from storage.models import (
    Answer,
    Chunk,
    Document,
    Job,
    LedgerEntry,
    OutboxMessage,
    ScheduleRun,
    Summary,
    SummaryDocument,
    UploadedFile,
)
from storage.prewarm_jobs import PREWARM_KIND

_DUE_SOON = timedelta(seconds=60)
"""Longer than any pause before another attempt."""


def open_jobs(session: Session) -> list[Job]:
    """Jobs that have not ended, but for those that are due later: what a delete frees waits ten minutes."""
    later = select(OutboxMessage.job_id).where(
        OutboxMessage.sent_at.is_(None), OutboxMessage.available_at > utc_now() + _DUE_SOON
    )
    query = select(Job).where(Job.status.not_in(FINAL_STATUSES), Job.id.not_in(later))
    return list(session.scalars(query))


def lost_jobs(session: Session, promises: Promises) -> list[str]:
    """What each lost job or file is: unknown, never ended, or failed, for nothing that is asked of it is wrong."""
    jobs = {job.id: job for job in session.scalars(select(Job))}
    lost = [f"{job_id}: accepted, yet unknown" for job_id in promises.job_ids - jobs.keys()]
    lost += [f"{job.id}: {job.kind} is {job.status}, attempt {job.attempt}" for job in open_jobs(session)]
    lost += [
        f"{job.id}: {job.kind} failed: {job.error_code}: {job.error_detail}"
        for job in jobs.values()
        # Prewarming is given up where the engine is busy for ever: questions do the same themselves.
        if job.status == "failed" and job.kind != PREWARM_KIND
    ]
    searchable = set(
        session.scalars(
            select(Document.content_hash).where(Document.deleted_at.is_(None), Document.status == "ready")
        )
    )
    missing = promises.content_hashes.keys() - searchable
    lost.extend(
        f"{promises.content_hashes[each]}: its file {each[:12]} is not searchable" for each in missing
    )
    return lost


def doubled_effects(session: Session) -> list[str]:
    """Documents, chunks, answers, files and runs of schedules that are there twice."""
    doubled = _repeated(
        session,
        "document",
        (Document.collection_id, Document.content_hash),
        Document.deleted_at.is_(None),
    )
    doubled += _repeated(session, "chunk", (Chunk.document_id, Chunk.start, Chunk.end))
    doubled += _repeated(session, "answer", (Answer.job_id,))
    doubled += _repeated(session, "file", (UploadedFile.job_id, UploadedFile.position))
    doubled += _repeated(
        session, "run", (ScheduleRun.schedule_id, ScheduleRun.slot_at), ScheduleRun.slot_at.is_not(None)
    )
    doubled += _repeated(session, "run's job", (ScheduleRun.job_id,), ScheduleRun.job_id.is_not(None))
    miscounted = select(Document.id, Document.num_chunks, func.count(Chunk.id)).join(
        Chunk, Chunk.document_id == Document.id
    )
    rows = session.execute(miscounted.where(Document.status == "ready").group_by(Document.id)).all()
    return doubled + [f"document {row[0]}: {row[2]} chunks of {row[1]}" for row in rows if row[1] != row[2]]


def truncated_answers(session: Session, promises: Promises) -> list[str]:
    """Answers and summaries that are said to be complete and are not, and answers that became others."""
    truncated = []
    answers = session.execute(
        select(Answer).join(Job, Job.id == Answer.job_id).where(Job.status == "succeeded")
    ).scalars()
    for answer in answers:
        asked = answer.parameters.get("min_tokens")
        if answer.outcome == "answered" and asked and answer.completion_tokens < ANSWER_TOKENS:
            truncated.append(f"{answer.id}: {answer.completion_tokens} tokens, {answer.finish_reason}")
        if answer.id in promises.texts and promises.texts[answer.id] != (answer.text or ""):
            truncated.append(f"{answer.id}: not what its reader was given")
    unread = (
        select(Summary.id, func.count())
        .join(SummaryDocument, SummaryDocument.summary_id == Summary.id)
        .where(Summary.outcome == "complete", SummaryDocument.finished_at.is_(None))
        .group_by(Summary.id)
    )
    return truncated + [f"{row[0]}: {row[1]} documents were not read" for row in session.execute(unread)]


def doubled_lines(session: Session) -> list[str]:
    """Work that was billed twice, and answers billed for other tokens than they have."""
    identity = (LedgerEntry.source, LedgerEntry.stage, LedgerEntry.price_stage, LedgerEntry.model)
    twice = session.execute(
        select(*identity)
        .where(LedgerEntry.billed)
        .group_by(*identity)
        .having(func.count(LedgerEntry.attempt.distinct()) > 1)
    ).all()
    doubled = [f"{row.source}: {row.stage} is billed twice" for row in twice]
    decoded = (
        select(LedgerEntry.source, func.sum(LedgerEntry.num_tokens).label("num_tokens"))
        .where(LedgerEntry.billed, LedgerEntry.stage == "decode")
        .group_by(LedgerEntry.source)
        .subquery()
    )
    wrong = session.execute(
        select(Answer.id, Answer.completion_tokens, decoded.c.num_tokens)
        .join(decoded, decoded.c.source == Answer.id)
        .where(Answer.completion_tokens != decoded.c.num_tokens)
    ).all()
    return doubled + [f"{row[0]}: billed {row[2]} tokens of {row[1]}" for row in wrong]


def ledger_tokens(session: Session, model: str) -> tuple[int, int]:
    """Tokens of the model on the ledger, burned ones included: prompt, and completion."""
    sums = dict(
        session.execute(
            select(LedgerEntry.price_stage, func.sum(LedgerEntry.num_tokens))
            .where(LedgerEntry.model == model)
            .group_by(LedgerEntry.price_stage)
        )
        .tuples()
        .all()
    )
    prompt = int(sums.get("prefill_uncached", 0)) + int(sums.get("prefill_cached", 0))
    return prompt, int(sums.get("decode", 0))


def _repeated(session: Session, what: str, columns: Iterable[object], *where: object) -> list[str]:
    keys = tuple(columns)
    query = select(*keys).where(*where).group_by(*keys).having(func.count() > 1)  # type: ignore[call-overload]
    return [
        f"{what} {' '.join(str(value) for value in row)} is there twice" for row in session.execute(query)
    ]
