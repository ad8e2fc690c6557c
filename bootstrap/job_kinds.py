"""The kinds of jobs, and what is due when a job has ended.

A new kind gets a line here, and a handler in `bootstrap/worker_services.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlalchemy.orm import Session

from core.ids import JobId, TenantId
from evaluation.registration import EVALUATE_KIND, close_evaluation
from generation.extraction_tables.registration import EXTRACT_KIND
from generation.questions import ANSWER_KIND
from generation.tracing.attention_requests import ATTENTION_KIND
from ingest.claims import close_upload
from ingest.compaction_requests import COMPACT_KIND
from ingest.uploads import INGEST_KIND
from storage.job_run import job_cancelled
from storage.models import Job
from storage.prewarm_jobs import PREWARM_KIND
from tenancy.principal import Scope


def _nothing_is_open(session: Session, job: Job) -> None:
    """What such a job had begun shows by the job's own row how it ended."""


@dataclass(frozen=True, slots=True)
class JobKind:
    """`scope`: what starting one takes, and so what cancelling it takes. `close`: closes what one that
    ended without success has left open, in the transaction that ends it."""

    scope: Scope
    close: Callable[[Session, Job], None] = _nothing_is_open


def _close_upload(session: Session, job: Job) -> None:
    job_id, cancelled = JobId(job.id), job_cancelled(JobId(job.id))
    close_upload(
        session,
        TenantId(job.tenant_id),
        job_id,
        code=job.error_code or cancelled.code,
        detail=job.error_detail or str(cancelled),
    )


def _close_evaluation(session: Session, job: Job) -> None:
    close_evaluation(session, TenantId(job.tenant_id), JobId(job.id))


JOB_KINDS: Mapping[str, JobKind] = {
    ANSWER_KIND: JobKind(Scope.ASK),
    ATTENTION_KIND: JobKind(Scope.ASK),
    COMPACT_KIND: JobKind(Scope.INGEST),
    EVALUATE_KIND: JobKind(Scope.ASK, close=_close_evaluation),
    EXTRACT_KIND: JobKind(Scope.ASK),
    INGEST_KIND: JobKind(Scope.INGEST, close=_close_upload),
    PREWARM_KIND: JobKind(Scope.INGEST),
}

_UNKNOWN = JobKind(Scope.ADMIN)


def kind_of(name: str) -> JobKind:
    """The kind of that name. One that this version does not know is left to administrators."""
    return JOB_KINDS.get(name, _UNKNOWN)


def finish_job(session: Session, job: Job) -> None:
    """What is due when a job has ended, whoever ended it: every database that jobs end in is given this."""
    if job.status != "succeeded":
        kind_of(job.kind).close(session, job)
