"""The states of a job, and the only place where one follows another.

queued ──claim──▶ running ──finish──▶ succeeded | failed
  ▲                  │
  ├────yield─────────┤   a long job lets others run; not counted as an attempt
  ├────retry─────────┤   a passing fault, attempts left
  └──lease expired───┘   the worker died, attempts left (else failed)
queued | running ──cancel──▶ cancelled   (running: at its next checkpoint; beats completion)
queued | running ──deadline──▶ failed     (running: at its next checkpoint)
failed | cancelled ──retry──▶ queued      by request; attempts go on counting
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from sqlalchemy import ColumnElement, update
from sqlalchemy.orm import Session

from core.clock import utc_now
from core.ids import JobId
from storage.database import tell_job_ended
from storage.models import Job

JobStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]
FINAL_STATUSES = frozenset({"succeeded", "failed", "cancelled"})

COMES_FROM: Mapping[JobStatus, frozenset[JobStatus]] = {
    "queued": frozenset({"running", "failed", "cancelled"}),
    "running": frozenset({"queued"}),
    "succeeded": frozenset({"running"}),
    "failed": frozenset({"queued", "running"}),
    "cancelled": frozenset({"queued", "running"}),
}
"""For each status those that it may follow."""


def move_job(
    session: Session, job_id: JobId, to: JobStatus, *conditions: ColumnElement[bool], **values: Any
) -> Job | None:
    """Change a job's status, and `values` with it; the job as it then is.

    None, and nothing is changed, where it does not meet the `conditions`, or is in a state that `to`
    does not follow. Whoever was given to the database to hear of ended jobs hears of it here, in
    the same transaction, however the job has ended.
    """
    is_final = to in FINAL_STATUSES
    if is_final:
        values = {"finished_at": utc_now(), "lease_owner": None, "lease_expires_at": None} | values
    moved = session.scalars(
        update(Job)
        .where(Job.id == job_id, Job.status.in_(COMES_FROM[to]), *conditions)
        .values(status=to, version=Job.version + 1, **values)
        .returning(Job)
        .execution_options(populate_existing=True, synchronize_session=False)
    ).one_or_none()
    if moved is not None and is_final:
        tell_job_ended(session, moved)
    return moved
