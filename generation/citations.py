"""Citations: quotes that stand in the source, letter by letter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import structlog

from core.ids import DocumentId, TenantId
from storage.database import Database
from storage.documents import DocumentRepository

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Quote:
    """A span of a document that supports an answer, not yet checked."""

    document_id: DocumentId
    document_name: str
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Citation:
    """A quote found in the stored source at these characters and pages; `number` counts from 1."""

    number: int
    document_id: DocumentId
    document_name: str
    start: int
    end: int
    first_page: int
    last_page: int
    quote: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class CitationVerifier:
    """Holds quotes against the stored text of their documents."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def verify(self, tenant_id: TenantId, quotes: Sequence[Quote]) -> list[Citation]:
        """Citations numbered in the order given, each span once, and only where it is verbatim.

        A quote that differs from the source is dropped and logged: it would be a fault of ours.
        """
        citations: list[Citation] = []
        seen: set[tuple[DocumentId, int, int]] = set()
        with self._database.read() as session:
            documents = DocumentRepository(session, tenant_id)
            for quote in quotes:
                span = (quote.document_id, quote.start, quote.end)
                if span in seen:
                    continue
                seen.add(span)
                source = documents.read_text(quote.document_id, quote.start, quote.end)
                if source != quote.text or not source:
                    log.error("citation.not_verbatim", document_id=quote.document_id, start=quote.start)
                    continue
                first, last = documents.find_pages(quote.document_id, quote.start, quote.end)
                citations.append(
                    Citation(
                        number=len(citations) + 1,
                        document_id=quote.document_id,
                        document_name=quote.document_name,
                        start=quote.start,
                        end=quote.end,
                        first_page=first,
                        last_page=last,
                        quote=source,
                    )
                )
        return citations
