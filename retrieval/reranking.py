"""The best candidates again, read together with the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from core.ids import ChunkId
from core.usage import ModelUse
from inference.model_uses import reranking_use
from inference.protocols import Reranker
from retrieval.fusion import FusedChunk
from retrieval.indexed_text import embedding_text
from retrieval.sentence_vectors import SentenceVectors
from retrieval.sentences import split_sentences
from retrieval.term_weights import TermWeights, term_pairs_of, terms_of
from storage.chunks import LiveChunk


@dataclass(frozen=True, slots=True)
class Reranked:
    """Best first; chunks beyond the reranked ones keep their order behind them."""

    ranking: list[FusedChunk]
    uses: tuple[ModelUse, ...]


class ChunkReranker(Protocol):
    """Puts a fused ranking in a better order."""

    def rerank(
        self,
        question: str,
        ranking: Sequence[FusedChunk],
        live: Mapping[ChunkId, LiveChunk],
        *,
        query_vector: NDArray[np.float32],
        vectors: SentenceVectors,
        lexical_weight: float,
    ) -> Reranked:
        """`ranking`, reordered.

        Args:
            live: every chunk of `ranking`.
            lexical_weight: how far words can be trusted, as in `FusionWeights`.
        """
        ...


MIN_SCORE_SHARE = 0.3
"""A reranked chunk with less than this share of the best one's score is no passage.

Of the chunks that answer, 94 to 100 % have more (by set of the retrieval suite, ranks 2 to 8); of
the others up to a fifth have less, which a prompt is better without.
"""

OVERLAP_WEIGHT, PAIRS_WEIGHT, SENTENCE_WEIGHT = 2.5, 1.0, 0.6
"""What each sign is worth in deviations of the fused score.

Chosen on a grid with the questions that `bench/retrieval_sets.py` names, for the mean gain over sets
and no loss on any; half a unit more or less of a word's sign changes the mean by a tenth of a point.
"""

_NUM_READ = 10
_SENTENCES_PER_CHUNK = 2
_MAX_SENTENCE_CHARACTERS = 240  # tables and code have longer ones, which cost much and say little


class SentenceReranker:
    """The packaged embedder and the words themselves; the default.

    Of each of the first `num_reranked` chunks it looks at how much of the question its words and
    pairs of words hold; of the first ten also how near its best sentence comes in meaning, for a
    chunk of many subjects is near to nothing as a whole. Two sentences of each are embedded, those
    that share most with the question: 20 sentences, 600 to 900 tokens a question. They stand under
    the document's title, which says whom a sentence is about: without it reranking loses two points
    on the reports of forty companies, with it one is won. One sentence of each is too few across
    languages, where words cannot tell which.

    Each sign adds to the fused score, in its unit, so that what is not looked at stays behind.
    """

    def __init__(self, *, num_reranked: int) -> None:
        self._num_reranked = num_reranked

    def rerank(
        self,
        question: str,
        ranking: Sequence[FusedChunk],
        live: Mapping[ChunkId, LiveChunk],
        *,
        query_vector: NDArray[np.float32],
        vectors: SentenceVectors,
        lexical_weight: float,
    ) -> Reranked:
        """By fused score, words and best sentence."""
        head = list(ranking[: self._num_reranked])
        if not head:
            return Reranked(list(ranking), ())
        chunks = [live[chunk.chunk_id] for chunk in head]
        read = [term_pairs_of(_text_of(chunk)) for chunk in chunks]
        weights = TermWeights.of(question, [terms for terms, _ in read])
        wanted = term_pairs_of(question)[1]
        words = [
            OVERLAP_WEIGHT * weights.overlap(terms) + PAIRS_WEIGHT * _share(wanted, pairs)
            for terms, pairs in read
        ]
        near, uses = self._nearness(chunks[:_NUM_READ], weights, query_vector, vectors)
        scored = [
            replace(
                chunk, score=chunk.score + lexical_weight * words[i] + (near[i] if i < len(near) else 0.0)
            )
            for i, chunk in enumerate(head)
        ]
        scored.sort(key=lambda chunk: (-chunk.score, chunk.chunk_id))
        return Reranked([*scored, *ranking[self._num_reranked :]], uses)

    def _nearness(
        self,
        chunks: Sequence[LiveChunk],
        weights: TermWeights,
        query_vector: NDArray[np.float32],
        vectors: SentenceVectors,
    ) -> tuple[list[float], tuple[ModelUse, ...]]:
        """How near each chunk's best sentence comes, in deviations above the worst of them."""
        chosen = [_telling_sentences(chunk, weights) for chunk in chunks]
        similarities = vectors.embed([text for texts in chosen for text in texts]) @ query_vector
        use = vectors.take_use()
        best, start = [], 0
        for texts in chosen:
            own = similarities[start : start + len(texts)]
            best.append(float(own.max()) if len(own) else float("nan"))
            start += len(texts)
        spread = float(similarities.std()) if len(similarities) else 0.0
        least = min((value for value in best if value == value), default=0.0)
        near = [
            SENTENCE_WEIGHT * (value - least) / spread if value == value and spread > 0 else 0.0
            for value in best
        ]
        return near, (use,) if use.num_tokens else ()


def _telling_sentences(chunk: LiveChunk, weights: TermWeights) -> list[str]:
    """The sentences that hold most of the question, in text order, each under the document's title."""
    sentences = [sentence.text for sentence in split_sentences(chunk.text)]
    held = [weights.overlap(terms_of(sentence)) for sentence in sentences]
    kept = sorted(range(len(sentences)), key=lambda i: (-held[i], i))[:_SENTENCES_PER_CHUNK]
    return [
        embedding_text(chunk.document_title, (), sentences[i][:_MAX_SENTENCE_CHARACTERS])
        for i in sorted(kept)
    ]


def _share(wanted: frozenset[tuple[str, str]], held: frozenset[tuple[str, str]]) -> float:
    return len(wanted & held) / len(wanted) if wanted else 0.0


class ModelReranker:
    """A cross-encoder reads each of the first `num_reranked` with the question."""

    def __init__(self, reranker: Reranker, *, num_reranked: int) -> None:
        self._reranker = reranker
        self._num_reranked = num_reranked

    def rerank(
        self,
        question: str,
        ranking: Sequence[FusedChunk],
        live: Mapping[ChunkId, LiveChunk],
        *,
        query_vector: NDArray[np.float32],
        vectors: SentenceVectors,
        lexical_weight: float,
    ) -> Reranked:
        """In the order of the model's scores, ties in the fused order."""
        head = list(ranking[: self._num_reranked])
        if not head:
            return Reranked(list(ranking), ())
        found = self._reranker.rerank(question, [_text_of(live[chunk.chunk_id]) for chunk in head])
        # A model's scores may be of any sign and size; the order is theirs, scores stay the fused ones.
        scores = sorted((chunk.score for chunk in head), reverse=True)
        order = sorted(range(len(head)), key=lambda i: (-float(found.scores[i]), i))
        reranked = [replace(head[i], score=score) for i, score in zip(order, scores, strict=True)]
        use = reranking_use(self._reranker, found)
        return Reranked([*reranked, *ranking[self._num_reranked :]], (use,))


def _text_of(chunk: LiveChunk) -> str:
    return embedding_text(chunk.document_title, chunk.headings, chunk.text)
