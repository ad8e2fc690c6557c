from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool

from api.authentication import Ingester
from api.budget_headers import warning_headers
from api.dependencies import IdempotencyKey, Services
from api.idempotency import make_once, request_hash
from api.multipart import FIELD, TAGS_FIELD, receive_files
from api.routes.documented import problems
from api.schemas.jobs import File, Job, Upload
from bootstrap.api_services import ApiServices
from bootstrap.estimates import estimate_upload
from core.ids import CollectionId, JobId
from ingest.uploads import FileReceiver, ReceivedUpload, register_upload
from storage.collections import CollectionRepository
from storage.jobs import JobRepository
from storage.tags import MAX_TAG_CHARACTERS, MAX_TAGS
from storage.uploads import UploadedFileRepository
from tenancy.principal import Principal

router = APIRouter(prefix="/v1/collections", tags=["documents"], responses=problems(401, 403, 422))

_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": [FIELD],
                    "properties": {
                        FIELD: {
                            "type": "array",
                            "items": {"type": "string", "format": "binary"},
                            "description": "One part per file, each with a file name.",
                        },
                        TAGS_FIELD: {
                            "type": "array",
                            "items": {"type": "string"},
                            "description": (
                                "Tags of all the files: one a part, or several with commas between. "
                                f"At most {MAX_TAGS}, of at most {MAX_TAG_CHARACTERS} characters each; "
                                "kept in lower case."
                            ),
                        },
                    },
                }
            }
        },
    }
}


@router.post(
    "/{collection_id}/documents",
    status_code=202,
    responses=problems(404, 413, 415, 429),
    openapi_extra=_BODY,
)
async def upload_documents(
    request: Request,
    response: Response,
    collection_id: str,
    principal: Ingester,
    services: Services,
    idempotency_key: IdempotencyKey = None,
) -> Upload:
    """Upload files. They are stored as they stream in and read afterwards, by the job.

    A file that cannot be taken (empty, or larger than allowed) is `failed` in the response and does
    not disturb the others. The same bytes again are recognised, and nothing is computed twice; the
    document that they are gains the request's tags.
    """
    target = CollectionId(collection_id)
    # Asked before anything is read, so that an upload into nowhere costs nobody its transfer.
    await run_in_threadpool(_require_collection, services, principal, target)
    limits = services.settings.upload
    received = await receive_files(
        request, lambda name: FileReceiver(principal, services.blobs, name, limits), limits
    )
    upload, warnings = await run_in_threadpool(
        _register, services, principal, target, received, idempotency_key
    )
    response.headers.update(warnings)
    response.headers["Location"] = f"/v1/jobs/{upload.job.id}"
    return upload


def _require_collection(services: ApiServices, principal: Principal, collection_id: CollectionId) -> None:
    with services.database.read() as session:
        CollectionRepository(session, principal.tenant_id).get(collection_id)


def _register(
    services: ApiServices,
    principal: Principal,
    collection_id: CollectionId,
    received: ReceivedUpload,
    idempotency_key: str | None,
) -> tuple[Upload, Mapping[str, str]]:
    """The upload, and headers that warn of budgets."""
    with services.database.write() as session:
        jobs = JobRepository(session, principal.tenant_id)
        uploaded = UploadedFileRepository(session, principal.tenant_id)

        def make() -> tuple[str, JobId]:
            job = register_upload(
                session,
                principal,
                collection_id,
                received.files,
                max_attempts=services.settings.worker.max_attempts,
                tags=received.tags,
                estimate=partial(estimate_upload, services.settings),
            )
            return job.id, JobId(job.id)

        made = make_once(
            session,
            principal.tenant_id,
            idempotency_key,
            _fingerprint(collection_id, received),
            make=make,
            load=JobId,
        )
        job, rows = jobs.get(made.resource), uploaded.list_by_job(made.resource)
        warnings = warning_headers(session)
    return Upload(job=Job.of(job, files=rows), files=[File.of(row) for row in rows]), warnings


def _fingerprint(collection_id: CollectionId, received: ReceivedUpload) -> str:
    files = [[file.name, file.content_hash, file.num_bytes] for file in received.files]
    return request_hash("upload_documents", collection_id, files, list(received.tags))
