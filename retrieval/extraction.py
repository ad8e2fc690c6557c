"""Extractive answers: the sentences of the passages that answer, verbatim, and how sure that is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from core.ids import DocumentId
from inference.protocols import Embedder
from retrieval.passages import Passage
from retrieval.sentences import split_sentences
from retrieval.support import (
    BACKGROUND_SENTENCES,
    MIN_SUPPORT,
    background_slice,
    estimate_support,
    is_han,
)
from retrieval.term_weights import TermWeights, terms_of

__all__ = ["MIN_SUPPORT", "EmbeddingExtractor", "ExtractedSentence", "Extraction", "PassageExtractor"]

MAX_SCORED_SENTENCES = 48  # bounds what a question costs: about 2,000 tokens, one batch
_OVERLAP_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class ExtractedSentence:
    """Characters `start` to `end` of a document, word for word.

    `passage_index` counts in the passages given. `similarity` is the inner product with the
    question, `overlap` the share of the question's weight in words that the sentence has.
    """

    document_id: DocumentId
    passage_index: int
    start: int
    end: int
    text: str
    score: float
    similarity: float
    overlap: float


@dataclass(frozen=True, slots=True)
class Extraction:
    """What was kept, best first.

    `support` is the probability, from 0 to 1, that the documents answer the question at all.
    `tokens_in` and `tokens_kept` count the passages' and the kept sentences' tokens by the
    embedder's own tokenizer; `num_embedded_tokens` is what was computed for this question, for the ledger.
    """

    sentences: tuple[ExtractedSentence, ...]
    support: float
    tokens_in: int
    tokens_kept: int
    num_embedded_tokens: int
    seconds: float


class PassageExtractor(Protocol):
    """Keeps of passages what a question needs."""

    def extract(
        self,
        question: str,
        passages: Sequence[Passage],
        *,
        num_sentences: int = 2,
        query_vector: NDArray[np.float32] | None = None,
    ) -> Extraction:
        """The `num_sentences` best sentences.

        Args:
            passages: best first.
            query_vector: (dimension,), where the question was embedded already.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Candidate:
    passage_index: int
    document_id: DocumentId
    start: int
    end: int
    text: str
    terms: frozenset[str]
    passage_share: float  # the passage's score over the best one's


class EmbeddingExtractor:
    """`PassageExtractor` by the embedder: similarity, shared words and the passage's own score.

    Safe to share between threads. On XQuAD the two best sentences of the whole collection hold
    the answer to nine questions in ten, in English and in Chinese.
    """

    def __init__(self, embedder: Embedder, *, max_sentences: int = MAX_SCORED_SENTENCES) -> None:
        self._embedder = embedder
        self._max_sentences = max_sentences
        self._background_terms = [terms_of(sentence) for sentence in BACKGROUND_SENTENCES]
        self._background_vectors: NDArray[np.float32] | None = None

    def extract(
        self,
        question: str,
        passages: Sequence[Passage],
        *,
        num_sentences: int = 2,
        query_vector: NDArray[np.float32] | None = None,
    ) -> Extraction:
        """The `num_sentences` sentences that answer best, and how likely it is that they do."""
        started = time.perf_counter()
        found = _candidates(passages)
        if not found:
            return Extraction((), 0.0, 0, 0, 0, time.perf_counter() - started)
        # Unrelated sentences count too, so that "the" and 的 are common in a short text as well.
        weights = TermWeights.of(question, [*(c.terms for c in found), *self._background_terms])
        candidates = self._prefilter(found, weights)
        query, num_query_tokens = self._query(question, query_vector)
        embedded = self._embedder.embed_passages([candidate.text for candidate in candidates])
        similarities = embedded.vectors @ query
        scores = _score(candidates, similarities, weights)
        best = _distinct(sorted(range(len(candidates)), key=lambda i: (-scores[i], i)), candidates)
        best = best[:num_sentences]
        kept = tuple(_extracted(candidates[i], scores[i], similarities[i], weights) for i in best)
        source = passages[candidates[best[0]].passage_index].text if best else passages[0].text
        background = self._background_similarity(query, source)
        shares_words = is_han(question) == is_han(source)
        count = self._embedder.tokenizer.count
        return Extraction(
            sentences=kept,
            support=estimate_support(
                similarity=float(similarities.max()),
                background=background,
                overlap=weights.overlap(terms_of(source)) if shares_words else None,
            ),
            tokens_in=sum(count(passage.text) for passage in passages),
            tokens_kept=sum(count(sentence.text) for sentence in kept),
            num_embedded_tokens=sum(embedded.num_tokens) + num_query_tokens,
            seconds=time.perf_counter() - started,
        )

    def _prefilter(self, found: Sequence[_Candidate], weights: TermWeights) -> list[_Candidate]:
        """At most `max_sentences`, by words and passage, in their order in the text."""
        worth = [_OVERLAP_WEIGHT * weights.overlap(c.terms) + c.passage_share for c in found]
        kept = sorted(range(len(found)), key=lambda i: (-worth[i], i))[: self._max_sentences]
        return [found[i] for i in sorted(kept)]

    def _query(self, question: str, vector: NDArray[np.float32] | None) -> tuple[NDArray[np.float32], int]:
        if vector is not None:
            return vector, 0
        embedded = self._embedder.embed_queries([question])
        return embedded.vectors[0], sum(embedded.num_tokens)

    def _background_similarity(self, query: NDArray[np.float32], source: str) -> float:
        """Mean similarity of the question to unrelated sentences in the language of `source`."""
        if self._background_vectors is None:  # computed once, which no single question has to pay
            self._background_vectors = self._embedder.embed_passages(BACKGROUND_SENTENCES).vectors
        similarities = self._background_vectors[background_slice(source)] @ query
        return float(similarities.mean())


def _candidates(passages: Sequence[Passage]) -> list[_Candidate]:
    top = max((passage.score for passage in passages), default=0.0)
    return [
        _Candidate(
            passage_index=index,
            document_id=passage.document_id,
            start=passage.start + sentence.start,
            end=passage.start + sentence.end,
            text=sentence.text,
            terms=terms_of(sentence.text),
            passage_share=passage.score / top if top > 0 else 1.0,
        )
        for index, passage in enumerate(passages)
        for sentence in split_sentences(passage.text)
    ]


def _distinct(order: Sequence[int], candidates: Sequence[_Candidate]) -> list[int]:
    """The order without sentences that say what an earlier one said, white space aside."""
    first: dict[str, int] = {}
    for i in order:
        first.setdefault("".join(candidates[i].text.split()), i)
    return list(first.values())


def _score(
    candidates: Sequence[_Candidate], similarities: NDArray[np.float32], weights: TermWeights
) -> list[float]:
    """Relative similarity + half the relative overlap + the passage's share of the best score."""
    overlaps = np.array([weights.overlap(candidate.terms) for candidate in candidates])
    shares = np.array([candidate.passage_share for candidate in candidates])
    total = _relative(similarities) + _OVERLAP_WEIGHT * _relative(overlaps) + shares
    return [float(score) for score in total]


def _extracted(
    candidate: _Candidate, score: float, similarity: float, weights: TermWeights
) -> ExtractedSentence:
    return ExtractedSentence(
        document_id=candidate.document_id,
        passage_index=candidate.passage_index,
        start=candidate.start,
        end=candidate.end,
        text=candidate.text,
        score=score,
        similarity=float(similarity),
        overlap=weights.overlap(candidate.terms),
    )


def _relative(values: NDArray[Any]) -> NDArray[Any]:
    """From 0 for the least to 1 for the greatest; all 0 where they are alike."""
    spread = float(values.max() - values.min())
    return (values - values.min()) / spread if spread > 0 else np.zeros_like(values)
