"""From a question to passages: embed, search both indexes, drop what SQL hides, fuse, rerank, merge."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from core.errors import EmptyInput
from core.ids import ChunkId, CollectionId, DocumentId, TenantId
from core.usage import ModelUse
from inference.protocols import Embedder, Reranker
from retrieval.compaction import SegmentInfo
from retrieval.dense_index import DenseIndex
from retrieval.filters import DocumentFilter
from retrieval.fusion import (
    STATISTICS_DEPTH,
    FusedChunk,
    fuse_queries,
    fuse_rankings,
    legible_share,
    weigh_sides,
)
from retrieval.hits import ScoredChunk
from retrieval.lexical_index import LexicalHits, LexicalIndex
from retrieval.passages import Passage, merge_passages
from retrieval.reranking import MIN_SCORE_SHARE, ChunkReranker, ModelReranker, SentenceReranker
from retrieval.segments import list_segments
from retrieval.sentence_vectors import SentenceVectors
from storage.chunks import ChunkRepository, LiveChunk
from storage.database import Database
from storage.documents import DocumentRepository

_STEPS = ("embed", "dense", "lexical", "load", "fuse", "rerank")
_WIDER = 4  # how many times further to look when too many hits are dead
_MAX_WINDOW = 20_000
_EVERY_DOCUMENT = DocumentFilter()

Seconds = dict[str, float]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Passages, best first, and how they were found.

    `seconds` has `embed`, `dense`, `lexical`, `load`, `fuse` and `rerank`. `ranking` is the order of
    live chunks before merging. `coverage` is that of `LexicalHits`, for the question itself.
    `query_vector` (dimension,) saves an extractor from embedding the question again; None where
    nothing was ever indexed. `num_query_tokens` counts all queries. `rerank_uses` is empty where
    nothing was computed for it. `num_duplicates` chunks were left out of the passages because a
    better one says the same.
    """

    passages: tuple[Passage, ...]
    ranking: tuple[FusedChunk, ...]
    coverage: float
    query_vector: NDArray[np.float32] | None
    num_query_tokens: int
    num_dead_hits: int
    seconds: Seconds
    rerank_uses: tuple[ModelUse, ...] = ()
    num_duplicates: int = 0


@dataclass(frozen=True, slots=True)
class _Scope:
    """Where to look: None in `allowed` is every document."""

    tenant_id: TenantId
    collection_id: CollectionId
    segments: list[SegmentInfo]
    allowed: Collection[DocumentId] | None


@dataclass(frozen=True, slots=True)
class _Hits:
    """Both rankings, candidates first and without the dead; beyond those only scores."""

    dense: list[ScoredChunk]
    lexical: list[ScoredChunk]
    coverage: float
    live: dict[ChunkId, LiveChunk]
    num_dead: int


@dataclass(frozen=True, slots=True)
class _Ranked:
    """One query's ranking, what it was made of, and what reranking consumed."""

    ranking: list[FusedChunk]
    hits: _Hits
    uses: tuple[ModelUse, ...]


class RetrievalPipeline:
    """Hybrid search over a tenant's collections. Safe to share between threads.

    Args:
        reranker: a cross-encoder; without one the embedder's sentences and the words rerank.
        num_reranked: the first so many of the fused ranking are reranked.
    """

    def __init__(
        self,
        *,
        database: Database,
        embedder: Embedder,
        dense: DenseIndex,
        lexical: LexicalIndex,
        reranker: Reranker | None = None,
        num_reranked: int = 30,
    ) -> None:
        self._database = database
        self._embedder = embedder
        self._dense = dense
        self._lexical = lexical
        self._cuts_off = reranker is None
        self._reranker: ChunkReranker = (
            ModelReranker(reranker, num_reranked=num_reranked)
            if reranker
            else SentenceReranker(num_reranked=num_reranked)
        )

    def search(
        self,
        tenant_id: TenantId,
        collection_id: CollectionId,
        question: str,
        *,
        queries: Sequence[str] = (),
        filter: DocumentFilter = _EVERY_DOCUMENT,
        rerank: bool = True,
        num_candidates: int = 50,
        num_passages: int = 6,
        max_passage_tokens: int = 2400,
        vectors: SentenceVectors | None = None,
    ) -> SearchResult:
        """The passages that best match `question`, none of them deleted or of another tenant.

        Args:
            queries: other wordings or parts of the question. Each is searched and reranked as the
                question is, and the rankings are fused by reciprocal rank.
            filter: only documents that meet it.
            num_candidates: chunks taken from each index, for each query.
            max_passage_tokens: generator tokens of all passages together.
            vectors: the request's sentence vectors; what reranking computes stays there.

        Raises:
            EmptyInput: the question is blank.
            StoreCorrupt: an index is damaged or missing.
        """
        if not question.strip():
            raise EmptyInput("The question is empty.", remedy="Ask something.")
        seconds: Seconds = dict.fromkeys(_STEPS, 0.0)
        scope = self._scope(tenant_id, collection_id, filter, seconds)
        if not scope.segments and not self._lexical.exists(collection_id):
            return SearchResult((), (), 0.0, None, 0, 0, seconds)  # nothing was ever indexed here
        texts = list(dict.fromkeys([question, *(query for query in queries if query.strip())]))
        embedded = self._embedder.embed_queries(texts)
        seconds["embed"] = embedded.seconds  # of computing: background work may have waited before
        vectors = vectors or SentenceVectors(self._embedder)
        ranked = [
            self._rank(scope, text, vector, num_candidates, vectors if rerank else None, seconds)
            for text, vector in zip(texts, embedded.vectors, strict=True)
        ]
        live = {chunk_id: chunk for one in ranked for chunk_id, chunk in one.hits.live.items()}
        with _timed(seconds, "fuse"):
            ranking = fuse_queries([one.ranking for one in ranked])
            # Calibrated on one query's scores by the default reranker; others are on other scales.
            cuts = rerank and self._cuts_off and len(ranked) == 1 and bool(ranking)
            least = MIN_SCORE_SHARE * ranking[0].score if cuts else 0.0
            merged = merge_passages(
                [(chunk, live[chunk.chunk_id]) for chunk in ranking if chunk.score >= least],
                num_passages=num_passages,
                max_tokens=max_passage_tokens,
            )
        with _timed(seconds, "load"):
            passages = self._fill_gaps(tenant_id, merged.passages)
        return SearchResult(
            passages=tuple(passages),
            ranking=tuple(ranking),
            coverage=ranked[0].hits.coverage,
            query_vector=embedded.vectors[0],
            num_query_tokens=sum(embedded.num_tokens),
            num_dead_hits=sum(one.hits.num_dead for one in ranked),
            seconds=seconds,
            rerank_uses=tuple(use for one in ranked for use in one.uses),
            num_duplicates=merged.num_duplicates,
        )

    def _scope(
        self, tenant_id: TenantId, collection_id: CollectionId, filter: DocumentFilter, seconds: Seconds
    ) -> _Scope:
        with _timed(seconds, "load"), self._database.read() as session:
            segments = list_segments(session, tenant_id, collection_id, self._embedder.revision)
            allowed = None
            if filter:
                allowed = DocumentRepository(session, tenant_id).find_filtered(
                    collection_id,
                    document_ids=filter.document_ids,
                    tags=filter.tags,
                    uploaded_from=filter.uploaded_from,
                    uploaded_before=filter.uploaded_before,
                )
        return _Scope(tenant_id, collection_id, segments, allowed)

    def _find(
        self,
        scope: _Scope,
        query: str,
        query_vector: NDArray[np.float32],
        num_candidates: int,
        seconds: Seconds,
    ) -> _Hits:
        """Both sides of one query, looking deeper while the dead crowd out the living."""
        window = num_candidates
        while True:
            depth = max(window, STATISTICS_DEPTH)
            with _timed(seconds, "lexical"):
                lexical = self._lexical.search(scope.collection_id, query, depth, allowed=scope.allowed)
            with _timed(seconds, "dense"):
                dense = self._dense.search(
                    scope.collection_id, scope.segments, query_vector, depth, allowed=scope.allowed
                )
            with _timed(seconds, "load"):
                hits = self._drop_dead(scope, dense, lexical, window)
            if window >= _MAX_WINDOW or not _too_shallow(hits, dense, lexical.chunks, window, num_candidates):
                return hits
            window *= _WIDER

    def _drop_dead(
        self, scope: _Scope, dense: Sequence[ScoredChunk], lexical: LexicalHits, window: int
    ) -> _Hits:
        ids = list(dict.fromkeys(hit.chunk_id for hit in (*dense[:window], *lexical.chunks[:window])))
        with self._database.read() as session:
            live = ChunkRepository(session, scope.tenant_id).find_live(scope.collection_id, ids)
        return _Hits(
            dense=_living(dense, live, window),
            lexical=_living(lexical.chunks, live, window),
            coverage=lexical.coverage,
            live=live,
            num_dead=len(ids) - len(live),
        )

    def _rank(
        self,
        scope: _Scope,
        query: str,
        query_vector: NDArray[np.float32],
        num_candidates: int,
        vectors: SentenceVectors | None,
        seconds: Seconds,
    ) -> _Ranked:
        """One query's ranking; reranked unless `vectors` is None."""
        hits = self._find(scope, query, query_vector, num_candidates, seconds)
        with _timed(seconds, "fuse"):
            weights = weigh_sides(
                legible_share=legible_share(self._embedder.tokenizer, query), lexical_coverage=hits.coverage
            )
            ranking = fuse_rankings(
                hits.dense,
                hits.lexical,
                num_candidates=num_candidates,
                documents={chunk_id: chunk.document_id for chunk_id, chunk in hits.live.items()},
                weights=weights,
            )
        if vectors is None:
            return _Ranked(ranking, hits, ())
        with _timed(seconds, "rerank"):
            reranked = self._reranker.rerank(
                query,
                ranking,
                hits.live,
                query_vector=query_vector,
                vectors=vectors,
                lexical_weight=weights.lexical,
            )
        return _Ranked(reranked.ranking, hits, reranked.uses)

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


def _living(
    ranking: Sequence[ScoredChunk], live: Mapping[ChunkId, LiveChunk], window: int
) -> list[ScoredChunk]:
    """The live of the first `window`, then the others, of which only scores are wanted."""
    return [hit for rank, hit in enumerate(ranking) if rank >= window or hit.chunk_id in live]


def _too_shallow(
    hits: _Hits, dense: Sequence[ScoredChunk], lexical: Sequence[ScoredChunk], window: int, wanted: int
) -> bool:
    """Whether the dead crowd out the living in a window that could have been wider."""
    sides = ((dense, hits.dense), (lexical, hits.lexical))
    return any(
        len(found) >= window and len(living) - (len(found) - window) < wanted for found, living in sides
    )


@contextmanager
def _timed(seconds: Seconds, step: str) -> Iterator[None]:
    started = time.perf_counter()
    try:
        yield
    finally:
        seconds[step] += time.perf_counter() - started
