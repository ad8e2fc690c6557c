from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Response
from sqlalchemy.orm import Session

from api.authentication import Asker
from api.budget_headers import warning_headers
from api.collection_filter import OfCollection, find_wanted
from api.dependencies import FirstPosition, IdempotencyKey, Limit, NewestFirst, Services
from api.idempotency import make_once, request_hash
from api.routes.documented import problems
from api.schemas.base import ListOf
from api.schemas.extractions import Extraction, ExtractionRow, NewExtraction
from core.ids import CollectionId, DocumentId, ExtractionId, JobId, TenantId
from generation.extraction_tables.registration import register_extraction
from generation.extraction_tables.table_csv import table_as_csv
from storage import models
from storage.extractions import ExtractionRepository
from storage.listings import Listings

router = APIRouter(prefix="/v1/extractions", tags=["extractions"], responses=problems(401, 403, 422))

_CSV: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A line a document; beside each column where the document states its value.",
        "content": {"text/csv": {"schema": {"type": "string"}}},
    }
}


@router.post("", status_code=202, responses=problems(404, 409, 413, 429))
def create_extraction(
    body: NewExtraction,
    principal: Asker,
    services: Services,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> Extraction:
    """Make a table: a row for each document that is ready now, a column for each property of the schema.

    Every value stands in its document, word for word or as the same number or date, and has its
    citation; what does not is null with the reason. Follow it at `Location`, or its job.
    """
    with services.database.write() as session:

        def make() -> tuple[str, models.Extraction]:
            row = register_extraction(
                session,
                principal,
                CollectionId(body.collection_id),
                body.parameters(),
                max_attempts=services.settings.worker.max_attempts,
            )
            return row.id, row

        made = make_once(
            session,
            principal.tenant_id,
            idempotency_key,
            request_hash("create_extraction", body.model_dump(mode="json")),
            make=make,
            load=lambda identifier: _get(session, principal.tenant_id, identifier),
        )
        shown = _show(session, principal.tenant_id, [made.resource])[0]
        response.headers.update(warning_headers(session))
    response.headers["Location"] = f"/v1/extractions/{shown.id}"
    return shown


@router.get("", responses=problems(404))
def list_extractions(
    page: NewestFirst,
    principal: Asker,
    services: Services,
    collection_id: OfCollection = None,
) -> ListOf[Extraction]:
    """The tenant's extractions, newest first."""
    with services.database.read() as session:
        wanted = find_wanted(session, principal.tenant_id, collection_id)
        rows = ExtractionRepository(session, principal.tenant_id).list_page(page, collection_id=wanted)
        items = _show(session, principal.tenant_id, rows.items)
    return ListOf(items=items, next_cursor=rows.next_cursor)


@router.get("/{extraction_id}", responses=problems(404))
def get_extraction(extraction_id: str, principal: Asker, services: Services) -> Extraction:
    """One extraction."""
    with services.database.read() as session:
        return _show(session, principal.tenant_id, [_get(session, principal.tenant_id, extraction_id)])[0]


@router.get("/{extraction_id}/rows", responses=problems(404))
def list_extraction_rows(
    extraction_id: str,
    principal: Asker,
    services: Services,
    first: FirstPosition,
    limit: Limit = 50,
) -> ListOf[ExtractionRow]:
    """The rows in order, those that are not done yet among them."""
    with services.database.read() as session:
        row = _get(session, principal.tenant_id, extraction_id)
        rows = ExtractionRepository(session, principal.tenant_id).list_parts(
            ExtractionId(row.id), first=first, limit=limit + 1
        )
        shown = [DocumentId(each.document_id) for each in rows[:limit]]
        withdrawn = Listings(session, principal.tenant_id).deleted_documents(shown)
    items = [ExtractionRow.of(each, withdrawn=withdrawn) for each in rows[:limit]]
    return ListOf(items=items, next_cursor=str(rows[limit].position) if len(rows) > limit else None)


@router.get("/{extraction_id}/rows.csv", response_class=Response, responses=_CSV | problems(404))
def download_extraction(extraction_id: str, principal: Asker, services: Services) -> Response:
    """The table as CSV, UTF-8, with the quote, page and place of every value."""
    with services.database.read() as session:
        row = _get(session, principal.tenant_id, extraction_id)
        rows = ExtractionRepository(session, principal.tenant_id).all_parts(ExtractionId(row.id))
        text = table_as_csv(list(row.parameters["schema"]["properties"]), rows)
    return Response(
        text,
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{row.id}.csv"'},
    )


# ---- parts -----------------------------------------------------------------------------------


def _get(session: Session, tenant_id: TenantId, extraction_id: str) -> models.Extraction:
    return ExtractionRepository(session, tenant_id).get(ExtractionId(extraction_id))


def _show(session: Session, tenant_id: TenantId, rows: Sequence[models.Extraction]) -> list[Extraction]:
    jobs = Listings(session, tenant_id).jobs([JobId(row.job_id) for row in rows])
    return [Extraction.of(row, jobs[JobId(row.job_id)]) for row in rows]
