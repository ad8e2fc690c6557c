from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from sqlalchemy.orm import Session

from api.authentication import Reader
from api.dependencies import NewestFirst, Services
from api.job_events import FINISHED
from api.routes.documented import problems
from api.schemas.base import ListOf
from api.schemas.jobs import Job, JobStatus
from bootstrap.job_kinds import kind_of
from core.ids import JobId
from generation.questions import ANSWER_KIND
from ingest.uploads import INGEST_KIND
from storage import models
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
            max_length=50, description="Only those of this kind: `ingest`, `answer`, `evaluate`, `extract`, …"
        ),
    ] = None,
) -> ListOf[Job]:
    """The tenant's jobs, newest first."""
    with services.database.read() as session:
        rows = JobRepository(session, principal.tenant_id).list_page(page, status=status, kind=kind)
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
    with services.database.write() as session:
        jobs = JobRepository(session, principal.tenant_id)
        require_scope(principal, kind_of(jobs.get(identifier).kind).scope)
        row = jobs.request_cancel(identifier)
        shown = _show(session, principal, row)
    if shown.status == "cancelled":
        # No worker holds it, so nobody else would tell those who wait.
        services.events.publish(identifier, FINISHED, {"status": shown.status})
    return shown


def _show(session: Session, principal: Principal, row: models.Job) -> Job:
    identifier = JobId(row.id)
    if row.kind == INGEST_KIND:
        files = UploadedFileRepository(session, principal.tenant_id).list_by_job(identifier)
        return Job.of(row, files=files)
    if row.kind == ANSWER_KIND:
        answers = Listings(session, principal.tenant_id).answer_ids([identifier])
        return Job.of(row, answer_id=answers.get(identifier))
    return Job.of(row)
