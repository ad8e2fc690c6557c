"""Chunks, and the only gate between an index and a user."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, Select, delete, func, select
from sqlalchemy.orm import Session

from core.ids import ChunkId, CollectionId, DocumentId, TenantId
from storage.models import Chunk, Document

_IN_LIMIT = 500  # bound variables per statement; SQLite's default limit is higher, old builds' 999


@dataclass(frozen=True, slots=True)
class LiveChunk:
    """A chunk whose document is ready and not deleted, with what a citation needs."""

    id: ChunkId
    document_id: DocumentId
    document_name: str
    document_title: str
    position: int
    start: int
    end: int
    first_page: int
    last_page: int
    headings: tuple[str, ...]
    text: str
    num_generator_tokens: int


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """Characters `start` to `end` of a document, under `headings`."""

    start: int
    end: int
    headings: tuple[str, ...]
    num_generator_tokens: int


class ChunkRepository:
    """Sees only its tenant's chunks."""

    def __init__(self, session: Session, tenant_id: TenantId) -> None:
        self._session = session
        self._tenant_id = tenant_id

    def replace(self, document_id: DocumentId, chunks: Sequence[Chunk]) -> None:
        """Make these the document's chunks. They count once its status is `ready`."""
        self._session.execute(
            delete(Chunk).where(Chunk.tenant_id == self._tenant_id, Chunk.document_id == document_id)
        )
        self._session.add_all(chunks)
        self._session.flush()

    def find_live(
        self, collection_id: CollectionId, chunk_ids: Sequence[ChunkId]
    ) -> dict[ChunkId, LiveChunk]:
        """Those of `chunk_ids` that may be shown: the only gate between an index and a user."""
        found: dict[ChunkId, LiveChunk] = {}
        for i in range(0, len(chunk_ids), _IN_LIMIT):
            query = self._live(collection_id).where(Chunk.id.in_(chunk_ids[i : i + _IN_LIMIT]))
            for row in self._session.execute(query):
                found[ChunkId(row.id)] = _live_chunk(row)
        return found

    def list_live(self, collection_id: CollectionId) -> Iterable[LiveChunk]:
        """All chunks of the collection's ready documents, in document and position order."""
        query = self._live(collection_id).order_by(Chunk.document_id, Chunk.position)
        for row in self._session.execute(query).yield_per(1000):
            yield _live_chunk(row)

    def list_live_ids(self, collection_id: CollectionId) -> set[ChunkId]:
        """Their ids alone, for a collection may hold more text than memory."""
        query = self._live(collection_id).with_only_columns(Chunk.id).execution_options(yield_per=10_000)
        return {ChunkId(chunk_id) for chunk_id in self._session.scalars(query)}

    def count_generator_tokens(self, document_id: DocumentId) -> int:
        """Tokens of a document's chunks together: its own, and a little more where chunks overlap."""
        query = select(func.coalesce(func.sum(Chunk.num_generator_tokens), 0)).where(
            Chunk.tenant_id == self._tenant_id, Chunk.document_id == document_id
        )
        return int(self._session.scalar(query) or 0)

    def count_tokens(self, document_ids: Sequence[DocumentId]) -> dict[DocumentId, tuple[int, int]]:
        """Tokens of each document's chunks, by the embedder's tokenizer and by the generator's."""
        found: dict[DocumentId, tuple[int, int]] = {}
        for i in range(0, len(document_ids), _IN_LIMIT):
            query = select(
                Chunk.document_id,
                func.sum(Chunk.num_tokens).label("embedded"),
                func.sum(Chunk.num_generator_tokens).label("generator"),
            ).where(
                Chunk.tenant_id == self._tenant_id,
                Chunk.document_id.in_(document_ids[i : i + _IN_LIMIT]),
            )
            for row in self._session.execute(query.group_by(Chunk.document_id)):
                found[DocumentId(row.document_id)] = (int(row.embedded), int(row.generator))
        return found

    def list_places(self, document_id: DocumentId) -> Sequence[ChunkPlace]:
        """Where a document's chunks stand, in order."""
        query = select(Chunk.start, Chunk.end, Chunk.headings, Chunk.num_generator_tokens).where(
            Chunk.tenant_id == self._tenant_id, Chunk.document_id == document_id
        )
        return [
            ChunkPlace(row.start, row.end, tuple(row.headings), row.num_generator_tokens)
            for row in self._session.execute(query.order_by(Chunk.position))
        ]

    def _live(self, collection_id: CollectionId) -> Select[Any]:
        # Columns and not entities: a question loads a hundred of these.
        return (
            select(
                *Chunk.__table__.columns,
                Document.name.label("document_name"),
                Document.title.label("document_title"),
            )
            .join(Document, Document.id == Chunk.document_id)
            .where(
                Chunk.tenant_id == self._tenant_id,
                Chunk.collection_id == collection_id,
                Document.status == "ready",
                Document.deleted_at.is_(None),
            )
        )


def _live_chunk(row: Row[Any]) -> LiveChunk:
    return LiveChunk(
        id=ChunkId(row.id),
        document_id=DocumentId(row.document_id),
        document_name=row.document_name,
        document_title=row.document_title,
        position=row.position,
        start=row.start,
        end=row.end,
        first_page=row.first_page,
        last_page=row.last_page,
        headings=tuple(row.headings),
        text=row.text,
        num_generator_tokens=row.num_generator_tokens,
    )
