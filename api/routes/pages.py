from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import anyio
from anyio.to_thread import run_sync
from fastapi import APIRouter, Header, Path, Query, Response
from fastapi.concurrency import run_in_threadpool
from sqlalchemy.orm import Session

from api.authentication import Reader
from api.dependencies import Services
from api.routes.documented import problems
from api.schemas.pages import DocumentPage
from bootstrap.api_services import ApiServices
from core.errors import Conflict, NotFound
from core.ids import AnswerId, DocumentId, TenantId, content_hash
from generation.citations import PageBox, boxes_on
from ingest.page_picture import MAX_WIDTH, MIN_WIDTH, RENDERER_REVISION, Mark, draw_page
from storage import models
from storage.answers import AnswerRepository
from storage.documents import DocumentRepository

router = APIRouter(prefix="/v1/documents", tags=["documents"], responses=problems(401, 403, 404, 409, 422))

DEFAULT_WIDTH = 1000

# A viewer that asks for many pages must take neither all CPUs nor the threads of other routes.
_turns = anyio.CapacityLimiter(2)

PageNumber = Annotated[int, Path(ge=1, le=2**31 - 1, description="From 1.")]


@router.get(
    "/{document_id}/pages/{number}.png",
    response_class=Response,
    responses={
        200: {"description": "The picture.", "content": {"image/png": {}}},
        304: {"description": "The picture you have is still right."},
    },
)
async def get_page_picture(
    document_id: str,
    number: PageNumber,
    principal: Reader,
    services: Services,
    answer: Annotated[
        str | None, Query(max_length=100, description="Mark what this answer cites on the page.")
    ] = None,
    width: Annotated[
        int, Query(ge=MIN_WIDTH, le=MAX_WIDTH, description="In pixels; the height follows.")
    ] = DEFAULT_WIDTH,
    if_none_match: Annotated[
        str | None, Header(max_length=2000, description="The `ETag` of the picture you have.")
    ] = None,
) -> Response:
    """A page of a PDF as a picture, with an answer's citations marked in it.

    Other formats have no pages to draw: 409. A page that is far longer than wide is drawn narrower
    than asked.
    """
    wanted = await run_in_threadpool(
        _wanted_picture, services, principal.tenant_id, DocumentId(document_id), number, answer
    )
    tag = _tag(wanted.content_hash, number, width, wanted.marks)
    headers = {
        "ETag": tag,
        # The browser asks each time, so that a deleted document's pages are not shown any more.
        "Cache-Control": "private, no-cache",
        "X-Content-Type-Options": "nosniff",
    }
    if _matches(if_none_match, tag):
        return Response(status_code=304, headers=headers)
    draw = partial(_draw, services, principal.tenant_id, wanted, number=number, width=width)
    return Response(await run_sync(draw, limiter=_turns), media_type="image/png", headers=headers)


@router.get("/{document_id}/pages/{number}")
def get_page(document_id: str, number: PageNumber, principal: Reader, services: Services) -> DocumentPage:
    """A page's text, its size and its place in the document's text. Formats without pages have one."""
    with services.database.read() as session:
        document, page = _page(session, principal.tenant_id, DocumentId(document_id), number)
    return DocumentPage(
        document_id=document.id,
        number=page.number,
        num_pages=document.num_pages,
        start=page.start,
        end=page.end,
        width=page.width,
        height=page.height,
        text=page.text,
    )


@dataclass(frozen=True, slots=True)
class _WantedPicture:
    content_hash: str
    name: str
    marks: tuple[Mark, ...]


def _wanted_picture(
    services: ApiServices,
    tenant_id: TenantId,
    document_id: DocumentId,
    number: int,
    answer_id: str | None,
) -> _WantedPicture:
    with services.database.read() as session:
        document, page = _page(session, tenant_id, document_id, number)
        _require_pdf(document)
        boxes = _cited(session, tenant_id, AnswerId(answer_id), page) if answer_id is not None else []
        marks = tuple((box.x0, box.y0, box.x1, box.y1) for box in boxes)
        return _WantedPicture(document.content_hash, document.name, marks)


def _draw(
    services: ApiServices, tenant_id: TenantId, wanted: _WantedPicture, *, number: int, width: int
) -> bytes:
    with services.blobs.local_path(tenant_id, wanted.content_hash) as path:
        return draw_page(
            path,
            wanted.name,
            number,
            width=width,
            marks=wanted.marks,
            memory_bytes=services.settings.chunk.parse_memory_bytes,
        )


def _page(
    session: Session, tenant_id: TenantId, document_id: DocumentId, number: int
) -> tuple[models.Document, models.Page]:
    documents = DocumentRepository(session, tenant_id)
    document = documents.get(document_id)
    if document.status != "ready":
        raise Conflict(
            f"Document {document_id} is {document.status}: its pages cannot be shown.",
            remedy="Wait until it is ready." if document.status == "processing" else "Upload it again.",
            document_id=document_id,
        )
    pages = documents.list_pages(document_id, first=number, last=number)
    if not pages:
        raise NotFound(
            f"Document {document_id} has no page {number}: it has {document.num_pages}.",
            remedy=f"Ask for a page from 1 to {document.num_pages}.",
            document_id=document_id,
            num_pages=document.num_pages,
        )
    return document, pages[0]


def _require_pdf(document: models.Document) -> None:
    if document.media_type != "application/pdf":
        raise Conflict(
            f"Documents of type {document.media_type} have no page pictures.",
            remedy=f"Read the text at /v1/documents/{document.id}/pages/1, or get the file at "
            f"/v1/documents/{document.id}/file.",
            document_id=document.id,
            media_type=document.media_type,
        )


def _cited(session: Session, tenant_id: TenantId, answer_id: AnswerId, page: models.Page) -> list[PageBox]:
    """Where the answer's citations of this document stand on the page; none if it cites others."""
    answer = AnswerRepository(session, tenant_id).get(answer_id)
    return [
        box
        for citation in answer.citations
        if citation["document_id"] == page.document_id
        and citation["start"] < page.end
        and citation["end"] > page.start
        for box in boxes_on(page, citation["start"], citation["end"])
    ]


def _tag(digest: str, number: int, width: int, marks: Sequence[Mark]) -> str:
    return f'"{content_hash(repr((RENDERER_REVISION, digest, number, width, marks)))[:32]}"'


def _matches(if_none_match: str | None, tag: str) -> bool:
    """RFC 9110 §13.1.2, by weak comparison."""
    if if_none_match is None:
        return False
    known = {each.strip().removeprefix("W/") for each in if_none_match.split(",")}
    return "*" in known or tag in known
