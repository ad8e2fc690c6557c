"""Keeping the indexes true to SQL: look for differences, mend them, merge small segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from accounting.billing import BurnReason, burned
from accounting.ledger import Ledger, LedgerLine, Stage
from core.errors import Conflict, StoreCorrupt
from core.ids import ChunkId, CollectionId, DocumentId, TenantId, new_id
from inference.protocols import Embedder
from retrieval.compaction import SegmentInfo, plan_compaction
from retrieval.dense_index import DenseIndex
from retrieval.indexed_text import embedding_key, embedding_text
from retrieval.lexical_index import LexicalIndex
from retrieval.segments import list_segments, swap_segments
from storage.chunks import ChunkRepository, LiveChunk
from storage.database import Database
from storage.embeddings import EmbeddingRepository
from storage.index_segments import IndexSegmentRepository

_CHUNKS_PER_SEGMENT = 50_000  # bounds the memory of a rebuild
_EMBED_BATCH = 256


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """How a collection's indexes differ from SQL.

    Missing chunks and corrupt files are faults. Dead entries are tombstones: SQL hides them, and
    compaction takes them away (from FAISS where they are many).
    """

    collection_id: CollectionId
    num_chunks: int
    missing_dense: tuple[ChunkId, ...]
    missing_lexical: tuple[ChunkId, ...]
    num_dead_dense: int
    num_dead_lexical: int
    corrupt: tuple[str, ...]

    @property
    def is_healthy(self) -> bool:
        return not (self.missing_dense or self.missing_lexical or self.corrupt)

    @property
    def num_differences(self) -> int:
        return len(self.missing_dense) + len(self.missing_lexical) + len(self.corrupt)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild did; tokens only where SQL had no vector. They are on the ledger, burned."""

    num_chunks: int
    num_embedded_chunks: int
    num_embedded_tokens: int


class IndexMaintenance:
    """Doctor and janitor of a tenant's collections."""

    def __init__(
        self,
        *,
        database: Database,
        embedder: Embedder,
        dense: DenseIndex,
        lexical: LexicalIndex,
        ledger: Ledger,
    ) -> None:
        self._database = database
        self._ledger = ledger
        self._embedder = embedder
        self._dense = dense
        self._lexical = lexical

    def diagnose(self, tenant_id: TenantId, collection_id: CollectionId) -> Diagnosis:
        """Compare SQL's chunks with FAISS's and BM25's. Changes nothing."""
        # SQL first: what is indexed meanwhile then counts as a tombstone, never as a fault.
        with self._database.read() as session:
            live = ChunkRepository(session, tenant_id).list_live_ids(collection_id)
            segments = self._list_segments(session, tenant_id, collection_id)
        corrupt: list[str] = []
        in_dense: set[ChunkId] = set()
        for segment in segments:
            try:
                in_dense.update(map(ChunkId, self._dense.chunk_ids(collection_id, segment).tolist()))
            except StoreCorrupt as error:
                corrupt.append(error.detail)
        in_lexical: set[ChunkId] = set()
        if live or self._lexical.exists(collection_id):
            try:
                in_lexical = self._lexical.chunk_ids(collection_id)
            except StoreCorrupt as error:
                corrupt.append(error.detail)
        return Diagnosis(
            collection_id=collection_id,
            num_chunks=len(live),
            missing_dense=tuple(sorted(live - in_dense)),
            missing_lexical=tuple(sorted(live - in_lexical)),
            num_dead_dense=len(in_dense - live),
            num_dead_lexical=len(in_lexical - live),
            corrupt=tuple(corrupt),
        )

    def rebuild(self, tenant_id: TenantId, collection_id: CollectionId) -> Rebuilt:
        """Write both indexes anew from SQL and make them visible; vectors come from SQL.

        Only texts that the current model revision has not seen are embedded. A document that
        becomes ready while this runs keeps its own segment; should BM25 miss it, `diagnose` says so.

        Raises:
            Conflict: segments were merged meanwhile; nothing has changed.
        """
        with self._database.read() as session:
            # Segments first: whatever they hold is then among the chunks read after.
            old = self._list_segments(session, tenant_id, collection_id)
        new: list[SegmentInfo] = []
        counts = Rebuilt(0, 0, 0)
        for batch in self._batches(tenant_id, collection_id, _CHUNKS_PER_SEGMENT):
            vectors, num_embedded, num_tokens = self._vectors(tenant_id, collection_id, batch)
            new.append(
                self._dense.write(
                    collection_id,
                    [chunk.id for chunk in batch],
                    vectors,
                    documents=[chunk.document_id for chunk in batch],
                )
            )
            counts = Rebuilt(
                counts.num_chunks + len(batch),
                counts.num_embedded_chunks + num_embedded,
                counts.num_embedded_tokens + num_tokens,
            )
        with self._database.write() as session:
            swap_segments(session, tenant_id, collection_id, self._embedder.revision, old=old, new=new)
        with self._database.read() as session:
            chunks = ChunkRepository(session, tenant_id).list_live(collection_id)
            self._lexical.rebuild(collection_id, _lexical_rows(chunks))
        return counts

    def compact(self, tenant_id: TenantId, collection_id: CollectionId) -> SegmentInfo | None:
        """Merge small or half-dead segments, and remove files whose rows went a while ago.

        Returns the new segment, or None where there was nothing to merge, nothing left alive, or
        another process merged first.
        """
        with self._database.read() as session:
            segments = self._list_segments(session, tenant_id, collection_id)
            live = ChunkRepository(session, tenant_id).list_live_ids(collection_id)
        dead = {
            s.id: sum(i not in live for i in self._dense.chunk_ids(collection_id, s).tolist())
            for s in segments
        }
        chosen = list(plan_compaction(segments, num_dead=dead))
        merged = self._dense.compact(collection_id, chosen, live) if chosen else None
        if chosen and not self._try_swap(tenant_id, collection_id, chosen, merged):
            merged = None
        with self._database.read() as session:
            # Of every revision: another embedder's segments are not ours to remove.
            visible = IndexSegmentRepository(session, tenant_id).list_ids(collection_id)
        self._dense.collect_garbage(collection_id, visible)
        return merged

    def has_garbage(self, collection_id: CollectionId) -> bool:
        """Whether `compact` has found files that it may remove only after a while."""
        return self._dense.has_garbage(collection_id)

    def forget_documents(self, collection_id: CollectionId, document_ids: Sequence[DocumentId]) -> None:
        """Take deleted documents out of BM25; their vectors go as `compact` rewrites their segments."""
        if document_ids:
            self._lexical.delete_documents(collection_id, document_ids)

    def _try_swap(
        self,
        tenant_id: TenantId,
        collection_id: CollectionId,
        old: list[SegmentInfo],
        merged: SegmentInfo | None,
    ) -> bool:
        try:
            with self._database.write() as session:
                swap_segments(
                    session,
                    tenant_id,
                    collection_id,
                    self._embedder.revision,
                    old=old,
                    new=[merged] if merged else [],
                )
        except Conflict:
            return False  # another process merged them first; our file is garbage
        return True

    def _list_segments(
        self, session: Session, tenant_id: TenantId, collection_id: CollectionId
    ) -> list[SegmentInfo]:
        return list_segments(session, tenant_id, collection_id, self._embedder.revision)

    def _batches(
        self, tenant_id: TenantId, collection_id: CollectionId, size: int
    ) -> Iterator[list[LiveChunk]]:
        with self._database.read() as session:
            chunks = iter(ChunkRepository(session, tenant_id).list_live(collection_id))
            while batch := list(islice(chunks, size)):
                yield batch

    def _vectors(
        self, tenant_id: TenantId, collection_id: CollectionId, chunks: Sequence[LiveChunk]
    ) -> tuple[NDArray[np.float32], int, int]:
        """(len(chunks), dimension), how many had to be embedded, and their tokens."""
        keys = [embedding_key(c.document_title, c.headings, c.text) for c in chunks]
        with self._database.read() as session:
            repository = EmbeddingRepository(session, tenant_id)
            known = repository.find(self._embedder.revision, keys)
        texts = {
            key: embedding_text(c.document_title, c.headings, c.text)
            for key, c in zip(keys, chunks, strict=True)
            if key not in known
        }
        num_tokens = 0
        missing = iter(texts.items())
        while batch := dict(islice(missing, _EMBED_BATCH)):
            embedded = self._embedder.embed_passages(list(batch.values()))
            fresh = dict(zip(batch, embedded.vectors, strict=True))
            line = LedgerLine(
                source=f"rebuild:{collection_id}:{new_id('rb')}",  # computed again, it is spent again
                attempt=1,
                stage=Stage.EMBED,
                model=self._embedder.name,
                model_revision=self._embedder.revision,
                num_tokens=sum(embedded.num_tokens),
                engine_seconds=embedded.seconds,
                collection_id=collection_id,
            )
            with self._database.write() as session:
                EmbeddingRepository(session, tenant_id).add(self._embedder.revision, fresh)
                self._ledger.record(session, tenant_id, burned([line], BurnReason.REPAIR))
            known.update(fresh)
            num_tokens += sum(embedded.num_tokens)
        return np.stack([known[key] for key in keys]), len(texts), num_tokens


def _lexical_rows(chunks: Iterable[LiveChunk]) -> Iterator[tuple[DocumentId, ChunkId, str]]:
    for chunk in chunks:
        text = embedding_text(chunk.document_title, chunk.headings, chunk.text)
        yield chunk.document_id, chunk.id, text
