"""Citations: quotes that stand in the source, letter by letter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import structlog

from core.ids import DocumentId, TenantId
from storage.database import Database
from storage.documents import DocumentRepository
from storage.models import Page
from storage.page_layout import boxes_between, unpack_layout

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Quote:
    """A span of a document that supports an answer, not yet checked."""

    document_id: DocumentId
    document_name: str
    start: int
    end: int
    text: str

    @property
    def span(self) -> tuple[DocumentId, int, int]:
        """What makes it the same quote as another."""
        return self.document_id, self.start, self.end


@dataclass(frozen=True, slots=True)
class PageBox:
    """A rectangle on a page: points (1/72 inch) from the top left of the page as displayed."""

    page: int
    page_width: float
    page_height: float
    x0: float
    y0: float
    x1: float
    y1: float


@dataclass(frozen=True, slots=True)
class Citation:
    """A quote found in the stored source at these characters and pages; `number` counts from 1.

    `boxes` are where it stands, a box a line; empty where the format has no positions.
    """

    number: int
    document_id: DocumentId
    document_name: str
    start: int
    end: int
    first_page: int
    last_page: int
    quote: str
    boxes: tuple[PageBox, ...] = ()

    @property
    def span(self) -> tuple[DocumentId, int, int]:
        """That of the `Quote` it verifies."""
        return self.document_id, self.start, self.end

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class CitationVerifier:
    """Holds quotes against the stored text of their documents."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def verify(self, tenant_id: TenantId, quotes: Sequence[Quote]) -> list[Citation]:
        """Citations numbered in the order given, each span once, and only where it is verbatim.

        What a citation shows is always the source's own characters: a quote may differ from them in
        white space only (passages show dropped white space as blanks). One that differs otherwise
        is dropped and logged: it would be a fault of ours.
        """
        citations: list[Citation] = []
        with self._database.read() as session:
            documents = DocumentRepository(session, tenant_id)
            for quote in {quote.span: quote for quote in quotes}.values():
                pages = _pages_of(documents, quote)
                source = _read(pages, quote.start, quote.end)
                if not source.strip() or "".join(source.split()) != "".join(quote.text.split()):
                    log.error("citation.not_verbatim", document_id=quote.document_id, start=quote.start)
                    continue
                citations.append(
                    Citation(
                        number=len(citations) + 1,
                        document_id=quote.document_id,
                        document_name=quote.document_name,
                        start=quote.start,
                        end=quote.end,
                        first_page=pages[0].number,
                        last_page=pages[-1].number,
                        quote=source,
                        boxes=tuple(box for page in pages for box in boxes_on(page, quote.start, quote.end)),
                    )
                )
        return citations


def boxes_on(page: Page, start: int, end: int) -> Iterator[PageBox]:
    """Where characters `start` to `end` of a document stand on one of its pages.

    Raises:
        StoreCorrupt: the page's layout cannot be read.
    """
    lines = unpack_layout(page.layout)
    for box in boxes_between(lines, page.text, start - page.start, end - page.start):
        yield PageBox(page.number, page.width, page.height, box.x0, box.y0, box.x1, box.y1)


def _pages_of(documents: DocumentRepository, quote: Quote) -> Sequence[Page]:
    first, last = documents.find_pages(quote.document_id, quote.start, quote.end)
    return documents.list_pages(quote.document_id, first=first, last=last) if first else ()


def _read(pages: Sequence[Page], start: int, end: int) -> str:
    if not pages:
        return ""
    offset = pages[0].start
    return "".join(page.text for page in pages)[start - offset : end - offset]
