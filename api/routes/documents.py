from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import FileResponse
from sqlalchemy.orm import Session
from starlette.background import BackgroundTask

from api.authentication import Ingester, Reader
from api.dependencies import OldestFirst, Services
from api.routes.documented import problems
from api.schemas.base import ListOf
from api.schemas.documents import Document, DocumentChange, DocumentStatus, DocumentText
from core.errors import InvalidInput
from core.ids import CollectionId, DocumentId, TenantId
from storage import models
from storage.collections import CollectionRepository
from storage.documents import DocumentRepository
from storage.listings import Listings
from storage.prewarm_jobs import request_prewarm

router = APIRouter(prefix="/v1", tags=["documents"], responses=problems(401, 403, 404, 422))

MAX_TEXT_CHARACTERS = 1_000_000
_OFFSET_BOUND = 2**31 - 1

Offset = Annotated[int, Query(ge=0, le=_OFFSET_BOUND, description="Offset of the first character.")]
EndOffset = Annotated[
    int | None,
    Query(
        ge=0,
        le=_OFFSET_BOUND,
        description=f"Offset after the last; left out: the end, or {MAX_TEXT_CHARACTERS:,} characters on.",
    ),
]


@router.get("/collections/{collection_id}/documents")
def list_documents(
    collection_id: str,
    page: OldestFirst,
    principal: Reader,
    services: Services,
    status: Annotated[DocumentStatus | None, Query(description="Only those of this status.")] = None,
    name: Annotated[
        str | None, Query(max_length=1000, description="Only those that came under this name.")
    ] = None,
    tag: Annotated[
        list[str] | None, Query(description="Only those with this tag; repeat it for any of several.")
    ] = None,
) -> ListOf[Document]:
    """A collection's documents, oldest first."""
    identifier = CollectionId(collection_id)
    with services.database.read() as session:
        CollectionRepository(session, principal.tenant_id).get(identifier)
        rows = DocumentRepository(session, principal.tenant_id).list_page(
            identifier, page, status=status, name=name, tags=tag or ()
        )
        items = _views(session, principal.tenant_id, rows.items)
    return ListOf(items=items, next_cursor=rows.next_cursor)


@router.get("/documents/{document_id}")
def get_document(document_id: str, principal: Reader, services: Services) -> Document:
    """One document."""
    with services.database.read() as session:
        row = DocumentRepository(session, principal.tenant_id).get(DocumentId(document_id))
        return _views(session, principal.tenant_id, [row])[0]


@router.patch("/documents/{document_id}")
def change_document(
    document_id: str, change: DocumentChange, principal: Ingester, services: Services
) -> Document:
    """Replace a document's tags, or mark it static. It need not be ready for that."""
    identifier = DocumentId(document_id)
    with services.database.write() as session:
        documents = DocumentRepository(session, principal.tenant_id)
        if "tags" in change.model_fields_set:
            documents.set_tags(identifier, change.tags)
        if "static" in change.model_fields_set:
            documents.set_static(identifier, change.static)
        if change.static and services.settings.prewarm.enabled:
            request_prewarm(
                session,
                principal.tenant_id,
                CollectionId(documents.get(identifier).collection_id),
                reason="static",
                key_id=principal.key_id,
                max_attempts=services.settings.worker.max_attempts,
            )
        return _views(session, principal.tenant_id, [documents.get(identifier)])[0]


@router.get("/documents/{document_id}/text")
def get_document_text(
    document_id: str,
    principal: Reader,
    services: Services,
    start: Offset = 0,
    end: EndOffset = None,
) -> DocumentText:
    """A stretch of a document's text, by the offsets that citations use."""
    identifier = DocumentId(document_id)
    with services.database.read() as session:
        documents = DocumentRepository(session, principal.tenant_id)
        length = documents.get(identifier).num_characters
        first, last = _stretch(start, end, length)
        text = documents.read_text(identifier, first, last)
    return DocumentText(document_id=document_id, start=first, end=last, num_characters=length, text=text)


@router.get(
    "/documents/{document_id}/file",
    response_class=FileResponse,
    responses={200: {"description": "The bytes that were uploaded.", "content": {"*/*": {}}}},
)
def download_document(document_id: str, principal: Reader, services: Services) -> FileResponse:
    """The file as it was uploaded."""
    with services.database.read() as session:
        row = DocumentRepository(session, principal.tenant_id).get(DocumentId(document_id))
    held = ExitStack()
    path = held.enter_context(services.blobs.local_path(principal.tenant_id, row.content_hash))
    return FileResponse(
        path,
        media_type=row.media_type or "application/octet-stream",
        filename=row.name,
        # An uploaded page must never run as one of ours: it is saved, not shown.
        content_disposition_type="attachment",
        headers={"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox"},
        background=BackgroundTask(held.close),
    )


@router.delete("/documents/{document_id}", status_code=204)
def delete_document(document_id: str, principal: Ingester, services: Services) -> None:
    """Delete a document: it is found no more. Answers that cite it say `withdrawn`."""
    with services.database.write() as session:
        DocumentRepository(session, principal.tenant_id).delete(DocumentId(document_id))


def _views(session: Session, tenant_id: TenantId, rows: Sequence[models.Document]) -> list[Document]:
    ids = [DocumentId(row.id) for row in rows]
    names = Listings(session, tenant_id).document_names(ids)
    tags = DocumentRepository(session, tenant_id).tags_of(ids)
    return [
        Document.of(row, names=names.get(identifier, ()), tags=tags.get(identifier, ()))
        for row, identifier in zip(rows, ids, strict=True)
    ]


def _stretch(start: int, end: int | None, length: int) -> tuple[int, int]:
    """The offsets to give, within the text."""
    last = min(length, start + MAX_TEXT_CHARACTERS) if end is None else min(length, end)
    first = min(start, length)
    if end is not None and end < start:
        raise InvalidInput(f"The stretch ends at {end}, before its start, {start}.", remedy="Swap them.")
    if last - first > MAX_TEXT_CHARACTERS:
        raise InvalidInput(
            f"The stretch has {last - first:,} characters; at most {MAX_TEXT_CHARACTERS:,} are given at once.",
            remedy="Ask for several stretches.",
        )
    return first, last
