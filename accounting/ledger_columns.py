"""What the ledger's lines can be told apart by, as expressions that both databases evaluate alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Select, String, cast, extract, func, select, type_coerce
from sqlalchemy.orm import Session

from storage.models import Job, LedgerEntry

# The ledger names the job; what kind of job it was, and whose schedule's, stands with it and never changes.
_OF_THE_JOB: dict[str, ColumnElement[Any]] = {
    "job_kind": Job.__table__.c.kind,
    "schedule_id": Job.__table__.c.schedule_id,
}


def select_lines(names: Sequence[str], *more: ColumnElement[Any]) -> Select[Any]:
    """The ledger's lines: the columns named, under their names, and `more`."""
    lines = select(*(_column(name).label(name) for name in names), *more).select_from(LedgerEntry)
    if not _OF_THE_JOB.keys().isdisjoint(names):
        lines = lines.outerjoin(Job, Job.id == LedgerEntry.job_id)
    return lines


def recorded_second(session: Session) -> ColumnElement[int]:
    """When a line was written: whole seconds since 1970, rounded down."""
    if session.get_bind().dialect.name == "postgresql":
        return cast(func.floor(extract("epoch", LedgerEntry.created_at)), BigInteger)
    # strftime would round the last half millisecond of a day up into the next: cut it off first.
    text = func.substr(type_coerce(LedgerEntry.created_at, String), 1, 19)
    return cast(func.strftime("%s", text), BigInteger)


def _column(name: str) -> ColumnElement[Any]:
    if name == "is_correction":
        return LedgerEntry.corrects_id.is_not(None)
    return _OF_THE_JOB[name] if name in _OF_THE_JOB else LedgerEntry.__table__.c[name]
