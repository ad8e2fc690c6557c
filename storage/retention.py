"""What is forgotten after its time. Documents, answers and the ledger never are."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Column, delete, exists
from sqlalchemy.orm import Session

from storage.models import Base, IdempotencyKey, Job, SummaryNode


def forget_jobs(session: Session, *, before: datetime) -> int:
    """Delete jobs that ended before then and that no other row names, such as compactions; how many."""
    forgotten = delete(Job).where(Job.finished_at < before)
    for column in _naming_jobs():
        forgotten = forgotten.where(~exists().where(column == Job.id).correlate(Job.__table__))
    result = session.execute(forgotten.execution_options(synchronize_session=False))
    return int(result.rowcount)  # type: ignore[attr-defined]


def forget_idempotency_keys(session: Session, *, before: datetime) -> int:
    """Delete keys whose request was made before then: repeated, it is a new one. How many."""
    result = session.execute(delete(IdempotencyKey).where(IdempotencyKey.created_at < before))
    return int(result.rowcount)  # type: ignore[attr-defined]


def forget_summary_nodes(session: Session, *, before: datetime) -> int:
    """Delete what no run of a summary has wanted since then: a later one makes it anew. How many."""
    result = session.execute(delete(SummaryNode).where(SummaryNode.used_at < before))
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
