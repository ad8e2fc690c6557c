"""Dense vectors: immutable FAISS segments, `index_dir/<collection_id>/dense/<segment_id>.faiss`.

A file counts only while SQL has its row, so a crash at any instant leaves the last good state.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Container, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.ids import ChunkId, CollectionId, DocumentId, SegmentId, new_id
from retrieval.compaction import SegmentInfo
from retrieval.hits import ScoredChunk, best_first
from retrieval.segment_file import (
    HNSW_MIN_VECTORS,
    MappedSegment,
    open_segment,
    segment_kind,
    write_segment,
)

GRACE_SECONDS = 600.0  # longer than any search that may have read the row before it went


class DenseIndex:
    """Every collection's FAISS segments. Safe to share between threads.

    Args:
        max_open: mapped segments kept open; the least recently used is let go.
        hnsw_min_vectors: segments from this size on become HNSW graphs.
    """

    def __init__(
        self, index_dir: Path, *, max_open: int = 256, hnsw_min_vectors: int = HNSW_MIN_VECTORS
    ) -> None:
        self._index_dir = index_dir
        self._max_open = max_open
        self._hnsw_min_vectors = hnsw_min_vectors
        self._open: OrderedDict[Path, MappedSegment] = OrderedDict()
        self._guard = threading.Lock()

    def write(
        self,
        collection_id: CollectionId,
        ids: Sequence[ChunkId],
        vectors: NDArray[np.float32],
        *,
        documents: Sequence[DocumentId],
    ) -> SegmentInfo:
        """Write a new segment file; nobody sees it until the caller inserts its row.

        Args:
            vectors: (len(ids), dimension), L2-normalized.
            documents: the one that each chunk is of.
        """
        segment_id = SegmentId(new_id("seg"))
        kind = segment_kind(len(ids), hnsw_min_vectors=self._hnsw_min_vectors)
        path = self._path(collection_id, segment_id)
        write_segment(path, np.asarray(ids, dtype=np.int64), vectors, documents, kind=kind)
        return SegmentInfo(segment_id, kind, len(ids))

    def search(
        self,
        collection_id: CollectionId,
        segments: Sequence[SegmentInfo],
        query: NDArray[np.float32],
        limit: int,
        *,
        allowed: Collection[DocumentId] | None = None,
    ) -> list[ScoredChunk]:
        """Nearest chunks over all `segments` by inner product, best first.

        Args:
            query: (dimension,), L2-normalized.
            allowed: only chunks of these documents, with the recall of an exact scan however few
                they are; none at all if it is empty. None: of every document.

        Raises:
            StoreCorrupt: a file is missing or damaged.
        """
        if limit < 1 or (allowed is not None and not allowed):
            return []
        scores: dict[ChunkId, float] = {}
        for segment in segments:
            ids, products = self._segment(collection_id, segment).search(query, limit, allowed=allowed)
            for chunk_id, product in zip(ids.tolist(), products.tolist(), strict=True):
                # A retried ingest may have left the same chunk in two segments.
                scores[chunk_id] = max(product, scores.get(chunk_id, product))
        return best_first(scores, limit)

    def chunk_ids(self, collection_id: CollectionId, segment: SegmentInfo) -> NDArray[np.int64]:
        """Ids in one segment, dead ones too. Raises `StoreCorrupt`."""
        return self._segment(collection_id, segment).ids

    def compact(
        self,
        collection_id: CollectionId,
        segments: Sequence[SegmentInfo],
        live: Container[ChunkId],
    ) -> SegmentInfo | None:
        """Write one new segment with what of `segments` is in `live`; None if nothing is.

        The caller swaps the rows in one transaction; the old files stay until `collect_garbage`.

        Raises:
            StoreCorrupt: a file is missing or damaged.
        """
        ids: list[ChunkId] = []
        documents: list[DocumentId] = []
        vectors: list[NDArray[np.float32]] = []
        seen: set[ChunkId] = set()
        for segment in reversed(segments):  # of a chunk in two segments the newest counts
            mapped = self._segment(collection_id, segment)
            wanted = [
                i
                for i, chunk_id in enumerate(mapped.ids.tolist())
                if chunk_id in live and chunk_id not in seen
            ]
            kept = [ChunkId(int(chunk_id)) for chunk_id in mapped.ids[wanted]]
            ids += kept
            seen.update(kept)
            names = list(mapped.documents)
            documents += [names[owner] for owner in mapped.owners[wanted].tolist()]
            vectors.append(mapped.vectors[wanted])
        if not ids:
            return None
        return self.write(collection_id, ids, np.concatenate(vectors), documents=documents)

    def collect_garbage(
        self,
        collection_id: CollectionId,
        live: Container[SegmentId],
        *,
        grace_seconds: float = GRACE_SECONDS,
        now: float | None = None,
    ) -> list[SegmentId]:
        """Remove files without a row, a grace period after they were first seen without one.

        Two steps, because a file may have no row yet (just written) or no longer (a search that
        read the row is about to open it). Returns the segments removed.
        """
        moment = time.time() if now is None else now
        removed: list[SegmentId] = []
        for path in sorted(self._folder(collection_id).glob("*.faiss")):
            segment_id, mark = SegmentId(path.stem), path.with_suffix(".retired")
            if segment_id in live:
                mark.unlink(missing_ok=True)
            elif not mark.exists():
                mark.write_text(repr(moment))
            elif moment - float(mark.read_text() or moment) >= grace_seconds:
                self._forget(path)
                path.unlink(missing_ok=True)
                mark.unlink(missing_ok=True)
                removed.append(segment_id)
        self._remove_partial_files(collection_id, before=moment - max(grace_seconds, GRACE_SECONDS))
        return removed

    def has_garbage(self, collection_id: CollectionId) -> bool:
        """Whether files wait for their grace period to pass."""
        return any(self._folder(collection_id).glob("*.retired"))

    def _segment(self, collection_id: CollectionId, segment: SegmentInfo) -> MappedSegment:
        path = self._path(collection_id, segment.id)
        with self._guard:
            if path in self._open:
                self._open.move_to_end(path)
                return self._open[path]
        # Outside the lock: checking a large file takes a while, and opening it twice is harmless.
        opened = open_segment(path, num_vectors=segment.num_vectors)
        with self._guard:
            self._open[path] = opened
            while len(self._open) > self._max_open:
                self._open.popitem(last=False)
        return opened

    def _forget(self, path: Path) -> None:
        with self._guard:
            self._open.pop(path, None)

    def _remove_partial_files(self, collection_id: CollectionId, *, before: float) -> None:
        for path in self._folder(collection_id).glob("partial_*"):
            try:
                if path.stat().st_mtime < before:
                    path.unlink()
            except FileNotFoundError:
                continue  # its writer has just finished

    def _folder(self, collection_id: CollectionId) -> Path:
        return self._index_dir / collection_id / "dense"

    def _path(self, collection_id: CollectionId, segment_id: SegmentId) -> Path:
        return self._folder(collection_id) / f"{segment_id}.faiss"
