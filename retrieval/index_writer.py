"""What ingest calls to make chunks findable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.errors import InvalidInput
from core.ids import ChunkId, CollectionId, DocumentId
from retrieval.compaction import SegmentInfo
from retrieval.dense_index import DenseIndex
from retrieval.lexical_index import LexicalIndex


@dataclass(frozen=True, slots=True)
class IndexedChunk:
    """A chunk as the indexes take it; `text` is its `embedding_text`."""

    id: ChunkId
    document_id: DocumentId
    text: str


class IndexWriter:
    """Writes both indexes. What it wrote counts once the caller commits the segment's row."""

    def __init__(self, *, dense: DenseIndex, lexical: LexicalIndex) -> None:
        self._dense = dense
        self._lexical = lexical

    def index(
        self,
        collection_id: CollectionId,
        chunks: Sequence[IndexedChunk],
        vectors: NDArray[np.float32],
    ) -> SegmentInfo:
        """Write `chunks`, all those of their documents, to BM25 and then to a new FAISS segment.

        The caller inserts the returned segment's row in the transaction that makes the documents
        ready. Killed anywhere before, nothing is seen: SQL does not know the chunks. Called
        again, BM25 ends up the same and the first file is collected as garbage.

        Args:
            vectors: (len(chunks), dimension), L2-normalized.

        Raises:
            InvalidInput: no chunks, or not one vector each.
            Conflict: the BM25 index stayed locked too long.
            StoreCorrupt: the BM25 index cannot be opened.
        """
        if not chunks or len(vectors) != len(chunks):
            raise InvalidInput(
                f"{len(chunks)} chunks came with {len(vectors)} vectors.", remedy="Pass one vector a chunk."
            )
        documents: dict[DocumentId, list[tuple[ChunkId, str]]] = {}
        for chunk in chunks:
            documents.setdefault(chunk.document_id, []).append((chunk.id, chunk.text))
        self._lexical.write(collection_id, documents)
        return self._dense.write(
            collection_id,
            [chunk.id for chunk in chunks],
            vectors,
            documents=[chunk.document_id for chunk in chunks],
        )
