"""One ranking out of several, when a side may be blind or weak."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from core.errors import InvalidInput
from core.ids import ChunkId, DocumentId
from inference.protocols import Tokenizer
from retrieval.document_level import document_standings
from retrieval.hits import ScoredChunk

RANK_CONSTANT = 60
STATISTICS_DEPTH = 200
_DENSE_PEAK, _LEXICAL_PEAK = 5.0, 6.3  # deviations that the best chunk usually stands out by
_MAX_DEVIATION = 8.0  # the only one of 200 chunks with a word is at 14, which says no more
_DOCUMENT_WEIGHT = 0.35
_MIN_WEIGHT = 0.005  # a blind side still orders what the other has not found


@dataclass(frozen=True, slots=True)
class FusionWeights:
    """How far to trust each side on this question, from 0 (blind) to 1."""

    dense: float = 1.0
    lexical: float = 1.0


@dataclass(frozen=True, slots=True)
class FusedChunk:
    """A chunk with its score and what each side said of it (ranks from 1).

    `score` is 0 for the last of a ranking and greater for better ones; it is the reranker's where
    there was one, and `fused_rank` is then where the chunk stood before.
    """

    chunk_id: ChunkId
    score: float
    dense_score: float | None = None
    lexical_score: float | None = None
    dense_rank: int | None = None
    lexical_rank: int | None = None
    fused_rank: int = 0


def fuse_rankings(
    dense: Sequence[ScoredChunk],
    lexical: Sequence[ScoredChunk],
    *,
    num_candidates: int,
    documents: Mapping[ChunkId, DocumentId],
    weights: FusionWeights | None = None,
) -> list[FusedChunk]:
    """Merge the first `num_candidates` of two best-first rankings into one.

    What lies deeper, up to 200 chunks, serves two ends. A chunk that one side took and the other
    ranks deeper gets that score and not the worst. And scores become standard deviations above the
    side's mean, so that a side counts by how far its best chunks stand out: where one finds many
    alike, its order means little. For the same reason each side is weighed by its best chunk's
    deviation. The dense side adds how near the chunk's document comes as a whole:
    `score = Σ weight · peak · deviation`. Ties break by chunk id.

    With multilingual-e5-small the constants lie in the middle of a plateau where no set of the
    retrieval suite falls behind its better side; `bench/retrieval_sets.py` says which questions
    had a say in that.

    Args:
        documents: the one that each candidate is of.

    Raises:
        InvalidInput: `num_candidates` is below 1.
    """
    if num_candidates < 1:
        raise InvalidInput(f"num_candidates is {num_candidates}.", remedy="Pass one or more.")
    weights = weights or FusionWeights()
    depth = max(STATISTICS_DEPTH, num_candidates)
    dense, lexical = dense[:depth], lexical[:depth]
    known = {hit.chunk_id for hit in (*dense, *lexical)}
    # What BM25 has not listed scores 0 with it, if its list is whole: of few chunks that says much.
    num_without_words = len(known) - len(lexical) if len(lexical) < depth else 0
    near = _Side.of(dense, weights.dense / _DENSE_PEAK)
    worded = _Side.of(lexical, weights.lexical / _LEXICAL_PEAK, num_zeros=num_without_words)
    candidates = dict.fromkeys(hit.chunk_id for side in (dense, lexical) for hit in side[:num_candidates])
    nearness = {chunk_id: near.deviation(chunk_id) for chunk_id in candidates}
    standings = document_standings(nearness, documents)
    totals = {
        chunk_id: near.weight * (deviation + _DOCUMENT_WEIGHT * standings[documents[chunk_id]])
        + worded.weight * worded.deviation(chunk_id)
        for chunk_id, deviation in nearness.items()
    }
    least = min(totals.values(), default=0.0)
    ordered = sorted(totals.items(), key=lambda item: (-item[1], item[0]))
    return [
        FusedChunk(
            chunk_id,
            total - least,
            dense_score=near.scores.get(chunk_id),
            lexical_score=worded.scores.get(chunk_id),
            dense_rank=near.ranks.get(chunk_id),
            lexical_rank=worded.ranks.get(chunk_id),
            fused_rank=rank,
        )
        for rank, (chunk_id, total) in enumerate(ordered, start=1)
    ]


def fuse_queries(rankings: Sequence[Sequence[FusedChunk]]) -> list[FusedChunk]:
    """One ranking of several queries' by reciprocal rank: score = Σ 61 / (60 + rank).

    Cormack et al., SIGIR 2009. Scores of different queries do not compare, ranks do. Of a chunk
    that several queries found, what the query that ranks it best says is kept. A single ranking
    stays as it is.
    """
    if len(rankings) == 1:
        return list(rankings[0])
    scores: Counter[ChunkId] = Counter()
    best: dict[ChunkId, tuple[int, FusedChunk]] = {}
    for ranking in rankings:
        for rank, chunk in enumerate(ranking, start=1):
            scores[chunk.chunk_id] += (RANK_CONSTANT + 1) / (RANK_CONSTANT + rank)  # type: ignore[assignment]
            if chunk.chunk_id not in best or rank < best[chunk.chunk_id][0]:
                best[chunk.chunk_id] = (rank, chunk)
    ordered = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return [replace(best[chunk_id][1], score=float(score)) for chunk_id, score in ordered]


def weigh_sides(*, legible_share: float, lexical_coverage: float) -> FusionWeights:
    """Weights for one question.

    Args:
        legible_share: of the question's letters, those the embedder's tokenizer knows
            (`legible_share`). English MiniLM keeps 100 % of an English question and 30 % of a
            Chinese one, on which it finds nothing and plain reciprocal rank would drag BM25 down.
        lexical_coverage: the best BM25 score over the best possible one. Above 0.2 for nine
            in ten questions in the documents' language, below 0.1 for nine in ten across
            languages, where BM25 sees only names and numbers.
    """
    return FusionWeights(dense=_ramp(legible_share, 0.6, 0.95), lexical=_ramp(lexical_coverage, 0.1, 0.2))


def legible_share(tokenizer: Tokenizer, text: str) -> float:
    """The share of `text`'s letters and digits that survive encoding and decoding; 1 if none."""
    written = _letters(text)
    if not written:
        return 1.0
    read = _letters(tokenizer.decode(tokenizer.encode(text)))
    return (written & read).total() / written.total()


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a question; a chunk beyond its list is taken for the list's last."""

    scores: dict[ChunkId, float]
    deviations: dict[ChunkId, float]
    last: float
    weight: float  # the peak included
    ranks: dict[ChunkId, int]

    @classmethod
    def of(cls, ranking: Sequence[ScoredChunk], weight: float, *, num_zeros: int = 0) -> _Side:
        """`num_zeros` chunks score 0 besides."""
        ids = [hit.chunk_id for hit in ranking]
        scores = np.array([hit.score for hit in ranking] + [0.0] * num_zeros)
        spread = float(scores.std()) if len(scores) else 0.0
        above = (scores - scores.mean()) / spread if spread > 0.0 else np.zeros(len(scores))
        deviations = np.minimum(above, _MAX_DEVIATION).tolist()
        return cls(
            scores={hit.chunk_id: hit.score for hit in ranking},
            deviations=dict(zip(ids, deviations, strict=False)),
            last=deviations[-1] if deviations else 0.0,
            weight=weight * deviations[0] if deviations else 0.0,
            ranks={chunk_id: rank for rank, chunk_id in enumerate(ids, start=1)},
        )

    def deviation(self, chunk_id: ChunkId) -> float:
        return self.deviations.get(chunk_id, self.last)


def _ramp(value: float, low: float, high: float) -> float:
    """From `_MIN_WEIGHT` at `low` straight to 1 at `high`."""
    return min(1.0, max(_MIN_WEIGHT, (value - low) / (high - low)))


def _letters(text: str) -> Counter[str]:
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    return Counter(character for character in decomposed if character.isalnum())
