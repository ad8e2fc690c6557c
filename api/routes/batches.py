from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from sqlalchemy.orm import Session
from starlette.datastructures import UploadFile

from api.authentication import Asker
from api.batch_file import OnInvalid, parse_batch_file
from api.batch_results import as_csv, as_jsonl
from api.budget_headers import warning_headers
from api.collection_filter import OfCollection, find_wanted
from api.dependencies import IdempotencyKey, NewestFirst, Services
from api.idempotency import make_once, request_hash
from api.job_events import FINISHED
from api.routes.documented import problems
from api.schemas.base import ListOf, Name
from api.schemas.batches import MAX_LIFE_SECONDS, Batch, BatchCost
from bootstrap.api_services import ApiServices
from core.clock import utc_now
from core.errors import InvalidInput
from core.ids import BatchId, CollectionId, JobId, TenantId, content_hash
from generation.batches.registration import register_batch
from storage import models
from storage.batches import NOTHING_SPENT, BatchRepository, ItemOutcome
from storage.jobs import JobRepository
from storage.listings import Listings
from tenancy.principal import Principal

router = APIRouter(prefix="/v1", tags=["batches"], responses=problems(401, 403, 422))

FIELD = "file"
_DEFAULT_NAME = "questions"
_JSONL, _CSV = "application/jsonl", "text/csv; charset=utf-8"
_LINE = {"type": "string", "description": "JSON Lines or CSV, in any encoding."}
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": [FIELD],
                    "properties": {FIELD: _LINE | {"format": "binary"}},
                }
            },
            "application/jsonl": {"schema": _LINE},
            "text/csv": {"schema": _LINE},
        },
    }
}
_FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A line for each question that is done so far, in the order of the batch's file.",
        "content": {
            "application/jsonl": {"schema": {"type": "string"}},
            "text/csv": {"schema": {"type": "string"}},
        },
    }
}

Format = Annotated[Literal["jsonl", "csv"], Query(description="`csv` is a table for people.")]


@router.post(
    "/collections/{collection_id}/batches",
    status_code=202,
    responses=problems(404, 409, 413, 429),
    openapi_extra=_BODY,
)
async def create_batch(
    request: Request,
    response: Response,
    collection_id: str,
    principal: Asker,
    services: Services,
    name: Annotated[Name | None, Query(description="For people; left out: the file's name.")] = None,
    on_invalid: Annotated[
        OnInvalid,
        Query(description="Lines that are wrong: `refuse` the file, or `skip` them into the errors."),
    ] = "refuse",
    max_cost: Annotated[
        BatchCost | None, Query(description="No question is asked once the answers cost so much.")
    ] = None,
    expires_after_seconds: Annotated[
        int | None, Query(ge=1, le=MAX_LIFE_SECONDS, description="What is not answered by then, is not.")
    ] = None,
    idempotency_key: IdempotencyKey = None,
) -> Batch:
    """Have a file of questions answered when nobody waits.

    The file is the body, or the part `file` of a form. A line is
    `{"custom_id": …, "method": "POST", "url": "/v1/questions", "body": {"question": …}}` as in OpenAI's
    batch files, or just `{"question": …}` with `custom_id` and what else a question may set; a CSV file
    has columns of these names. Every line is looked at before anything is made. Follow the batch at
    `Location`, or its job; cancelling keeps what was answered.
    """
    file_name, data = await _receive(request)
    shown_name = name or file_name
    lines = await run_in_threadpool(parse_batch_file, shown_name, data, on_invalid=on_invalid)

    def register() -> tuple[Batch, Mapping[str, str]]:
        with services.database.write() as session:

            def make() -> tuple[str, models.Batch]:
                expires_after = timedelta(seconds=expires_after_seconds or 0)
                row = register_batch(
                    session,
                    principal,
                    CollectionId(collection_id),
                    lines,
                    name=shown_name,
                    max_cost=max_cost,
                    expires_at=utc_now() + expires_after if expires_after else None,
                    max_attempts=services.settings.worker.max_attempts,
                )
                return row.id, row

            made = make_once(
                session,
                principal.tenant_id,
                idempotency_key,
                request_hash(
                    "create_batch",
                    collection_id,
                    content_hash(data),
                    [name, on_invalid, str(max_cost), expires_after_seconds],
                ),
                make=make,
                load=lambda identifier: _get(session, principal.tenant_id, identifier),
            )
            return _show(session, principal.tenant_id, [made.resource])[0], warning_headers(session)

    shown, warnings = await run_in_threadpool(register)
    response.headers.update(warnings)
    response.headers["Location"] = f"/v1/batches/{shown.id}"
    return shown


@router.get("/batches", responses=problems(404))
def list_batches(
    page: NewestFirst,
    principal: Asker,
    services: Services,
    collection_id: OfCollection = None,
) -> ListOf[Batch]:
    """The tenant's batches, newest first."""
    with services.database.read() as session:
        wanted = find_wanted(session, principal.tenant_id, collection_id)
        rows = BatchRepository(session, principal.tenant_id).list_page(page, collection_id=wanted)
        items = _show(session, principal.tenant_id, rows.items)
    return ListOf(items=items, next_cursor=rows.next_cursor)


@router.get("/batches/{batch_id}", responses=problems(404))
def get_batch(batch_id: str, principal: Asker, services: Services) -> Batch:
    """One batch."""
    with services.database.read() as session:
        return _show(session, principal.tenant_id, [_get(session, principal.tenant_id, batch_id)])[0]


@router.post("/batches/{batch_id}/cancel", responses=problems(404, 409))
def cancel_batch(batch_id: str, principal: Asker, services: Services) -> Batch:
    """Stop a batch within seconds; what was answered stays."""
    with services.database.write() as session:
        row = _get(session, principal.tenant_id, batch_id)
        job = JobRepository(session, principal.tenant_id).request_cancel(JobId(row.job_id))
        shown = _show(session, principal.tenant_id, [_get(session, principal.tenant_id, batch_id)])[0]
    if job.status == "cancelled":
        services.events.publish(JobId(job.id), FINISHED, {"status": job.status})
    return shown


@router.get("/batches/{batch_id}/output", response_class=Response, responses=_FILE | problems(404))
def download_batch_output(
    batch_id: str, principal: Asker, services: Services, format: Format = "jsonl"
) -> Response:
    """What was answered, each answer as the API gives it."""
    return _download(services, principal, batch_id, "completed", format)


@router.get("/batches/{batch_id}/errors", response_class=Response, responses=_FILE | problems(404))
def download_batch_errors(
    batch_id: str, principal: Asker, services: Services, format: Format = "jsonl"
) -> Response:
    """What was not answered, and why."""
    return _download(services, principal, batch_id, "failed", format)


# ---- parts -----------------------------------------------------------------------------------


async def _receive(request: Request) -> tuple[str, bytes]:
    """Name and bytes of the file, however it came."""
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        return _DEFAULT_NAME, await request.body()
    async with request.form(max_files=1, max_fields=0) as form:
        file = form.get(FIELD)
        if not isinstance(file, UploadFile):
            raise InvalidInput(
                f"The form has no file named `{FIELD}`.",
                remedy=f"Send the questions as one part named `{FIELD}`, with a file name, or as the body itself.",
            )
        return _file_name(file.filename), await file.read()


def _file_name(given: str | None) -> str:
    readable = "".join(filter(str.isprintable, given or "")).strip()
    return readable[:200] or _DEFAULT_NAME


def _download(
    services: ApiServices,
    principal: Principal,
    batch_id: str,
    outcome: ItemOutcome,
    format: Literal["jsonl", "csv"],
) -> Response:
    with services.database.read() as session:
        identifier = BatchId(_get(session, principal.tenant_id, batch_id).id)
    write, media_type = (as_csv, _CSV) if format == "csv" else (as_jsonl, _JSONL)
    kind = "output" if outcome == "completed" else "errors"
    return StreamingResponse(
        write(services.database, principal.tenant_id, identifier, outcome),
        media_type=media_type,
        headers={"Content-Disposition": f'attachment; filename="{identifier}_{kind}.{format}"'},
    )


def _get(session: Session, tenant_id: TenantId, batch_id: str) -> models.Batch:
    return BatchRepository(session, tenant_id).get(BatchId(batch_id))


def _show(session: Session, tenant_id: TenantId, rows: Sequence[models.Batch]) -> list[Batch]:
    jobs = Listings(session, tenant_id).jobs([JobId(row.job_id) for row in rows])
    spent = BatchRepository(session, tenant_id).spending([BatchId(row.id) for row in rows])
    return [Batch.of(row, jobs[JobId(row.job_id)], spent.get(BatchId(row.id), NOTHING_SPENT)) for row in rows]
