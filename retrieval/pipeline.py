"""From a question to passages: embed, search both indexes, drop what SQL hides, fuse, merge."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from core.errors import EmptyInput
from core.ids import ChunkId, CollectionId, TenantId
from inference.protocols import Embedder
from retrieval.compaction import SegmentInfo
from retrieval.dense_index import DenseIndex
from retrieval.fusion import FusedChunk, fuse_rankings, legible_share, weigh_sides
from retrieval.hits import ScoredChunk
from retrieval.lexical_index import LexicalHits, LexicalIndex
from retrieval.passages import Passage, merge_passages
from retrieval.segments import list_segments
from storage.chunks import ChunkRepository, LiveChunk
from storage.database import Database
from storage.documents import DocumentRepository

_DEEPER = 4  # how many times further to look when too many hits are dead
_MAX_DEPTH = 20_000

Seconds = dict[str, float]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Passages, best first, and how they were found.

    `seconds` has `embed`, `dense`, `lexical`, `load` and `fuse`. `ranking` is the fused order of
    live chunks before merging. `coverage` is that of `LexicalHits`. `query_vector` (dimension,) saves
    an extractor from embedding the question again; None where nothing was ever indexed.
    """

    passages: tuple[Passage, ...]
    ranking: tuple[FusedChunk, ...]
    coverage: float
    query_vector: NDArray[np.float32] | None
    num_query_tokens: int
    num_dead_hits: int
    seconds: Seconds


@dataclass(frozen=True, slots=True)
class _Hits:
    """Both rankings without the dead, and the live chunks."""

    dense: list[ScoredChunk]
    lexical: list[ScoredChunk]
    coverage: float
    live: dict[ChunkId, LiveChunk]
    num_dead: int


class RetrievalPipeline:
    """Hybrid search over a tenant's collections. Safe to share between threads."""

    def __init__(
        self, *, database: Database, embedder: Embedder, dense: DenseIndex, lexical: LexicalIndex
    ) -> None:
        self._database = database
        self._embedder = embedder
        self._dense = dense
        self._lexical = lexical

    def search(
        self,
        tenant_id: TenantId,
        collection_id: CollectionId,
        question: str,
        *,
        num_candidates: int = 50,
        num_passages: int = 6,
        max_passage_tokens: int = 2400,
    ) -> SearchResult:
        """The passages that best match `question`, none of them deleted or of another tenant.

        Args:
            num_candidates: chunks taken from each index.
            max_passage_tokens: generator tokens of all passages together.

        Raises:
            EmptyInput: the question is blank.
            StoreCorrupt: an index is damaged or missing.
        """
        if not question.strip():
            raise EmptyInput("The question is empty.", remedy="Ask something.")
        seconds: Seconds = dict.fromkeys(("embed", "dense", "lexical", "load", "fuse"), 0.0)
        segments = self._segments(tenant_id, collection_id, seconds)
        if not segments and not self._lexical.exists(collection_id):
            return SearchResult((), (), 0.0, None, 0, 0, seconds)  # nothing was ever indexed here
        with _timed(seconds, "embed"):
            embedded = self._embedder.embed_queries([question])
        with _timed(seconds, "lexical"):
            lexical = self._lexical.search(collection_id, question, num_candidates)
        depth = num_candidates
        while True:
            with _timed(seconds, "dense"):
                dense = self._dense.search(collection_id, segments, embedded.vectors[0], depth)
            with _timed(seconds, "load"):
                hits = self._drop_dead(tenant_id, collection_id, dense, lexical)
            if depth >= _MAX_DEPTH or not _too_shallow(hits, dense, lexical, depth, num_candidates):
                break
            depth *= _DEEPER
            with _timed(seconds, "lexical"):
                lexical = self._lexical.search(collection_id, question, depth)
        with _timed(seconds, "fuse"):
            weights = weigh_sides(
                legible_share=legible_share(self._embedder.tokenizer, question),
                lexical_coverage=hits.coverage,
            )
            ranking = fuse_rankings(
                hits.dense[:num_candidates], hits.lexical[:num_candidates], weights=weights
            )
            passages = merge_passages(
                [(chunk, hits.live[chunk.chunk_id]) for chunk in ranking],
                num_passages=num_passages,
                max_tokens=max_passage_tokens,
            )
        with _timed(seconds, "load"):
            passages = self._fill_gaps(tenant_id, passages)
        return SearchResult(
            passages=tuple(passages),
            ranking=tuple(ranking),
            coverage=hits.coverage,
            query_vector=embedded.vectors[0],
            num_query_tokens=sum(embedded.num_tokens),
            num_dead_hits=hits.num_dead,
            seconds=seconds,
        )

    def _segments(
        self, tenant_id: TenantId, collection_id: CollectionId, seconds: Seconds
    ) -> list[SegmentInfo]:
        with _timed(seconds, "load"), self._database.read() as session:
            return list_segments(session, tenant_id, collection_id, self._embedder.revision)

    def _drop_dead(
        self,
        tenant_id: TenantId,
        collection_id: CollectionId,
        dense: Sequence[ScoredChunk],
        lexical: LexicalHits,
    ) -> _Hits:
        ids = list(dict.fromkeys(hit.chunk_id for hit in (*dense, *lexical.chunks)))
        with self._database.read() as session:
            live = ChunkRepository(session, tenant_id).find_live(collection_id, ids)
        return _Hits(
            dense=[hit for hit in dense if hit.chunk_id in live],
            lexical=[hit for hit in lexical.chunks if hit.chunk_id in live],
            coverage=lexical.coverage,
            live=live,
            num_dead=len(ids) - len(live),
        )

    def _fill_gaps(self, tenant_id: TenantId, passages: Sequence[Passage]) -> list[Passage]:
        """Put the source's own white space where merging left blanks: citations are verbatim."""
        if not any(passage.has_gaps for passage in passages):
            return list(passages)
        with self._database.read() as session:
            documents = DocumentRepository(session, tenant_id)
            return [
                replace(p, text=documents.read_text(p.document_id, p.start, p.end) or p.text)
                if p.has_gaps
                else p
                for p in passages
            ]


def _too_shallow(
    hits: _Hits, dense: Sequence[ScoredChunk], lexical: LexicalHits, depth: int, wanted: int
) -> bool:
    """Whether the dead crowd out the living in a list that could have been longer."""
    dense_short = len(dense) == depth and len(hits.dense) < wanted
    lexical_short = len(lexical.chunks) == depth and len(hits.lexical) < wanted
    return dense_short or lexical_short


@contextmanager
def _timed(seconds: Seconds, step: str) -> Iterator[None]:
    started = time.perf_counter()
    try:
        yield
    finally:
        seconds[step] += time.perf_counter() - started
