from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response, StreamingResponse
from sqlalchemy.orm import Session

from api import cancelling, streaming
from api.authentication import Reader
from api.dependencies import JobEvents, NewestFirst, Services
from api.job_changes import is_told, job_changes, parse_last_version
from api.routes.documented import problems
from api.schemas.base import ListOf
from api.schemas.jobs import Job, JobStatus
from api.streaming import EVENTS
from bootstrap import job_kinds
from bootstrap.estimates import estimate_again
from bootstrap.job_kinds import kind_of
from core.ids import JobId
from ingest.uploads import INGEST_KIND
from storage import models
from storage.answers import ANSWER_KIND
from storage.jobs import JobRepository
from storage.listings import Listings
from storage.uploads import UploadedFileRepository
from tenancy.principal import Principal, require_scope

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], responses=problems(401, 403, 422))


@router.get("")
def list_jobs(
    page: NewestFirst,
    principal: Reader,
    services: Services,
    status: Annotated[JobStatus | None, Query(description="Only those of this status.")] = None,
    kind: Annotated[
        str | None,
        Query(
            max_length=50,
            description="Only those of this kind: `ingest`, `answer`, `extract`, `summarize`, …",
        ),
    ] = None,
    parked: Annotated[
        bool,
        Query(description="Only those that were given up because their workers died or crashed each time."),
    ] = False,
) -> ListOf[Job]:
    """The tenant's jobs, newest first."""
    with services.database.read() as session:
        rows = JobRepository(session, principal.tenant_id).list_page(
            page, status=status, kind=kind, parked=parked
        )
        answers = Listings(session, principal.tenant_id).answer_ids([JobId(row.id) for row in rows.items])
    items = [Job.of(row, answer_id=answers.get(JobId(row.id))) for row in rows.items]
    return ListOf(items=items, next_cursor=rows.next_cursor)


@router.get("/{job_id}", responses=problems(404))
def get_job(job_id: str, principal: Reader, services: Services) -> Job:
    """One job; an `ingest` with its files."""
    with services.database.read() as session:
        row = JobRepository(session, principal.tenant_id).get(JobId(job_id))
        return _show(session, principal, row)


@router.post("/{job_id}/cancel", responses=problems(404, 409))
def cancel_job(job_id: str, principal: Reader, services: Services) -> Job:
    """Stop a job: at once while it is queued, at its next checkpoint while it runs.

    Cancelling beats completing. The scope needed is the one that starting it took.
    """
    identifier = JobId(job_id)
    with services.database.read() as session:
        kind = JobRepository(session, principal.tenant_id).get(identifier).kind
    require_scope(principal, kind_of(kind).scope)
    row = cancelling.cancel_job(services, principal.tenant_id, identifier)
    with services.database.read() as session:
        return _show(session, principal, row)


@router.post("/{job_id}/retry", responses=problems(404, 409))
def retry_job(job_id: str, principal: Reader, services: Services) -> Job:
    """Try a job again that failed or was cancelled; of an upload, the files that failed.

    Attempts go on counting, and what earlier ones used stays on the ledger. The scope needed is the one
    that starting it took. An evaluation cannot be tried again: it is complete once it has ended.
    """
    with services.database.write() as session:
        row = JobRepository(session, principal.tenant_id).get(JobId(job_id))
        require_scope(principal, kind_of(row.kind).scope)
        row = job_kinds.retry_job(
            session,
            row,
            max_attempts=services.settings.worker.max_attempts,
            estimate=partial(estimate_again, services.settings),
        )
        return _show(session, principal, row)


@router.get("/{job_id}/events", response_class=StreamingResponse, responses=EVENTS | problems(404))
async def follow_job(
    job_id: str,
    principal: Reader,
    services: Services,
    events: JobEvents,
    last_event_id: Annotated[
        str | None, Header(alias="Last-Event-ID", description="The `id` of the last event you have.")
    ] = None,
) -> Response:
    """A job as it stands, then whenever it has changed: `job`, and last `end`, each with the whole job.

    Resumed after the last event there is nothing to tell: 204, at which an event source stops asking.
    """

    def look() -> Job:
        return get_job(job_id, principal, services)

    seen = parse_last_version(last_event_id)
    if is_told(await run_in_threadpool(look), seen=seen):
        return Response(status_code=204)
    return streaming.respond(job_changes(look, events, seen=seen))


def _show(session: Session, principal: Principal, row: models.Job) -> Job:
    identifier = JobId(row.id)
    if row.kind == INGEST_KIND:
        files = UploadedFileRepository(session, principal.tenant_id).list_by_job(identifier)
        return Job.of(row, files=files)
    if row.kind == ANSWER_KIND:
        answers = Listings(session, principal.tenant_id).answer_ids([identifier])
        return Job.of(row, answer_id=answers.get(identifier))
    return Job.of(row)
