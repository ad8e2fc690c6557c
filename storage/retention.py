"""What is forgotten after its time. Documents, answers and the ledger never are."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Column, Delete, delete, exists, select
from sqlalchemy.orm import Session

from storage.models import (
    Base,
    Batch,
    Evaluation,
    Extraction,
    IdempotencyKey,
    Job,
    StoredReport,
    Summary,
    SummaryDocument,
    SummaryNode,
    WebhookDelivery,
)

_RESULTS = (Batch, Evaluation, Extraction, StoredReport, Summary)
"""What jobs make that can be made again. Each names its job, and its parts go with it."""


def forget_jobs(session: Session, *, before: datetime) -> int:
    """Delete jobs that ended before then and that no other row names, such as compactions; how many."""
    forgotten = delete(Job).where(Job.finished_at < before)
    for column in _naming_jobs():
        forgotten = forgotten.where(~exists().where(column == Job.id).correlate(Job.__table__))
    return _delete(session, forgotten)


def forget_results(session: Session, *, before: datetime) -> int:
    """Delete what jobs made that ended before then: batches, evaluations, extractions, summaries, reports.

    The answers of batches and evaluations stay, as all answers do, and so do the jobs, which the ledger names.
    How many.
    """
    ended = select(Job.id).where(Job.finished_at < before)
    return sum(_delete(session, delete(model).where(model.job_id.in_(ended))) for model in _RESULTS)


def forget_deliveries(session: Session, *, before: datetime) -> int:
    """Delete from the log what was delivered to webhooks, or given up, before then; how many."""
    ended = select(Job.id).where(Job.finished_at < before)
    return _delete(session, delete(WebhookDelivery).where(WebhookDelivery.job_id.in_(ended)))


def forget_idempotency_keys(session: Session, *, before: datetime) -> int:
    """Delete keys whose request was made before then: repeated, it is a new one. How many."""
    return _delete(session, delete(IdempotencyKey).where(IdempotencyKey.created_at < before))


def forget_summary_nodes(session: Session, *, before: datetime) -> int:
    """Delete what no run of a summary has wanted since then: a later one makes it anew. How many.

    A run that has not finished, or may be tried again, will want those of the documents that it has read.
    """
    wanted = (
        exists()
        .where(
            SummaryDocument.tenant_id == SummaryNode.tenant_id,
            SummaryDocument.node_key == SummaryNode.key,
            SummaryDocument.summary_id == Summary.id,
            Summary.finished_at.is_(None),
        )
        .correlate(SummaryNode.__table__)
    )
    return _delete(session, delete(SummaryNode).where(SummaryNode.used_at < before, ~wanted))


def _delete(session: Session, statement: Delete) -> int:
    result = session.execute(statement.execution_options(synchronize_session=False))
    return int(result.rowcount)  # type: ignore[attr-defined]


def _naming_jobs() -> list[Column[str]]:
    """Every column of another table that holds a job's id, so that a new table is reckoned with."""
    return [
        column
        for table in Base.metadata.sorted_tables
        if table is not Job.__table__
        for column in table.columns
        if column.name == "job_id" or any(key.column is Job.__table__.c.id for key in column.foreign_keys)
    ]
