"""The kinds of jobs, and what is due when a job has ended.

A new kind gets a line here, and a handler in `bootstrap/worker_services.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import structlog
from sqlalchemy import select
from sqlalchemy.orm import Session

from accounting.holds import Estimate, reserve, settle
from accounting.ledger import Ledger
from accounting.lost_requests import settle_lost_requests
from accounting.stored_reports import COST_REPORT_KIND
from core.errors import Conflict, LongleafError
from core.ids import ConversationId, JobId, TenantId
from evaluation.registration import EVALUATE_KIND, close_evaluation
from generation.batches.registration import BATCH_KIND, close_batch, reopen_batch
from generation.extraction_tables.registration import EXTRACT_KIND
from generation.summaries.registration import SUMMARIZE_KIND
from generation.tracing.attention_requests import ATTENTION_KIND
from ingest.claims import close_upload
from ingest.compaction_requests import COMPACT_KIND
from ingest.uploads import INGEST_KIND
from storage.answers import ANSWER_KIND, AnswerRepository
from storage.conversations import ConversationRepository
from storage.engine_requests import list_requests
from storage.job_run import job_cancelled
from storage.jobs import JobQueue, JobRepository
from storage.models import Batch, Extraction, Job, StoredReport, Summary
from storage.prewarm_jobs import PREWARM_KIND
from storage.uploads import UploadedFileRepository
from storage.webhooks import WEBHOOK_KIND, close_delivery, notify_job_finished
from tenancy.principal import Scope

log = structlog.get_logger()


def _nothing_is_open(session: Session, job: Job) -> None:
    """What such a job had begun shows by the job's own row how it ended."""


def _job_itself(session: Session, job: Job) -> str:
    return job.id


@dataclass(frozen=True, slots=True)
class JobKind:
    """`scope`: what starting one takes, and so what cancelling it or trying it again takes.

    `close` closes what one that ended without success has left open, in the transaction that ends it.
    `reopen` opens again what was closed, for another try, and says how many parts of it have attempts
    of their own; None where what was closed cannot be opened. `source`: what ledger entries of lost
    attempts say was paid for.
    """

    scope: Scope
    close: Callable[[Session, Job], None] = _nothing_is_open
    reopen: Callable[[Session, Job], int] | None = None
    source: Callable[[Session, Job], str] = _job_itself


def _nothing_was_closed(session: Session, job: Job) -> int:
    return 0


def _answer_id(session: Session, job: Job) -> str:
    return AnswerRepository(session, TenantId(job.tenant_id)).get_by_job(JobId(job.id)).id


def _reopen_answer(session: Session, job: Job) -> int:
    """Raises `Conflict` where later turns of its conversation build on how it ended."""
    answer = AnswerRepository(session, TenantId(job.tenant_id)).get_by_job(JobId(job.id))
    if answer.conversation_id is None:
        return 0
    conversations = ConversationRepository(session, TenantId(job.tenant_id))
    if conversations.get(ConversationId(answer.conversation_id)).num_turns != answer.turn:
        raise Conflict(
            f"Answer {answer.id} is not the last turn of its conversation.",
            remedy="Ask its question again as the next turn.",
            answer_id=answer.id,
        )
    return 0


def _reopen_upload(session: Session, job: Job) -> int:
    return UploadedFileRepository(session, TenantId(job.tenant_id)).reopen(JobId(job.id))


def _close_upload(session: Session, job: Job) -> None:
    job_id, cancelled = JobId(job.id), job_cancelled(JobId(job.id))
    close_upload(
        session,
        TenantId(job.tenant_id),
        job_id,
        code=job.error_code or cancelled.code,
        detail=job.error_detail or str(cancelled),
    )


def _close_batch(session: Session, job: Job) -> None:
    job_id = JobId(job.id)
    close_batch(
        session,
        TenantId(job.tenant_id),
        job_id,
        code=job.error_code or "batch_cancelled",
        detail=job.error_detail or str(job_cancelled(job_id)),
    )


def _reopen_batch(session: Session, job: Job) -> int:
    _reopen_kept(session, job, model=Batch)
    reopen_batch(session, TenantId(job.tenant_id), JobId(job.id))
    return 0


def _reopen_kept(
    session: Session, job: Job, *, model: type[Batch] | type[Extraction] | type[StoredReport] | type[Summary]
) -> int:
    """Nothing was closed; but what the job was to go on with may have been forgotten (`retention.result_days`)."""
    if session.scalar(select(model.id).where(model.job_id == job.id)) is None:
        raise Conflict(
            f"Job {job.id} cannot be tried again: what it had made was forgotten after its time.",
            remedy="Start a new one.",
            job_id=job.id,
        )
    return 0


def _close_evaluation(session: Session, job: Job) -> None:
    close_evaluation(session, TenantId(job.tenant_id), JobId(job.id))


JOB_KINDS: Mapping[str, JobKind] = {
    ANSWER_KIND: JobKind(Scope.ASK, reopen=_reopen_answer, source=_answer_id),
    ATTENTION_KIND: JobKind(Scope.ASK, reopen=_nothing_was_closed),
    BATCH_KIND: JobKind(Scope.ASK, close=_close_batch, reopen=_reopen_batch),
    COMPACT_KIND: JobKind(Scope.INGEST, reopen=_nothing_was_closed),
    COST_REPORT_KIND: JobKind(Scope.REPORTS, reopen=partial(_reopen_kept, model=StoredReport)),
    EVALUATE_KIND: JobKind(Scope.ASK, close=_close_evaluation),
    EXTRACT_KIND: JobKind(Scope.ASK, reopen=partial(_reopen_kept, model=Extraction)),
    INGEST_KIND: JobKind(Scope.INGEST, close=_close_upload, reopen=_reopen_upload),
    PREWARM_KIND: JobKind(Scope.INGEST, reopen=_nothing_was_closed),
    WEBHOOK_KIND: JobKind(Scope.ADMIN, close=close_delivery, reopen=_nothing_was_closed),
    SUMMARIZE_KIND: JobKind(Scope.ASK, reopen=partial(_reopen_kept, model=Summary)),
}

_UNKNOWN = JobKind(Scope.ADMIN)
_LEDGER = Ledger()


def kind_of(name: str) -> JobKind:
    """The kind of that name. One that this version does not know is left to administrators."""
    return JOB_KINDS.get(name, _UNKNOWN)


def retry_job(
    session: Session,
    job: Job,
    *,
    max_attempts: int,
    estimate: Callable[[Session, Job], Estimate] | None = None,
) -> Job:
    """Queue a job again that failed or was cancelled, with `max_attempts` more.

    Args:
        estimate: what it will take, held of the budgets it counts against; None: nothing is held.

    Raises:
        Conflict: it has succeeded, or has not ended; or what it closed then cannot be opened again.
        BudgetExceeded: a budget that it counts against has too little left; the transaction must be given up.
    """
    reopen = kind_of(job.kind).reopen
    if reopen is None:
        raise Conflict(
            f"Job {job.id} cannot be tried again: one of kind {job.kind!r} is complete once it has ended.",
            remedy="Start a new one.",
            job_id=job.id,
            kind=job.kind,
        )
    jobs = JobRepository(session, TenantId(job.tenant_id))
    jobs.require_retriable(job)
    num_parts = reopen(session, job)
    reserve(session, job, partial(estimate, session, job) if estimate else None)
    return jobs.retry(JobId(job.id), more_attempts=max_attempts * (num_parts + 1))


def settle_lost(session: Session, job: Job) -> None:
    """Put what workers of the job had engines do before they died on the ledger, and on nobody's bill.

    To be called when no worker holds it; who ends it with success records its requests itself. A price that
    is missing is logged, and holds up nothing.
    """
    notes = list_requests(session, JobId(job.id))
    if not notes:
        return
    try:
        with session.begin_nested():
            source = kind_of(job.kind).source(session, job)
            num_tokens = settle_lost_requests(session, _LEDGER, job, notes, source=source)
    except LongleafError as error:
        log.warning("job.not_settled", job_id=job.id, code=error.code)
    else:
        log.info("job.lost_requests_settled", job_id=job.id, num_tokens=num_tokens)


def finish_job(session: Session, job: Job) -> None:
    """What is due when a job has ended, whoever ended it: every database that jobs end in is given this."""
    if job.status != "succeeded":
        settle_lost(session, job)
        kind_of(job.kind).close(session, job)
    notify_job_finished(session, job)
    settle(session, job)
    if asker := job.payload.get("asked_by"):
        JobQueue(session).wake(JobId(asker))
