"""How likely it is that passages answer a question at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from core.usage import ModelUse
from inference.model_uses import embedding_use
from inference.protocols import Embedder
from retrieval.passages import Passage
from retrieval.sentence_vectors import SentenceVectors
from retrieval.support.background import BACKGROUND_SENTENCES
from retrieval.support.coefficients import regression_for
from retrieval.support.evidence import Evidence, weigh_sentences
from retrieval.support.facts import facts_asked


@dataclass(frozen=True, slots=True)
class Support:
    """`value` is the probability, from 0 to 1, that the passages answer; refuse under `threshold`.

    `reasons` says in words what spoke against them, strongest first; empty where they are supported.
    `uses`: what was embedded for it beside the request's sentence vectors.
    """

    value: float
    threshold: float
    reasons: tuple[str, ...] = ()
    uses: tuple[ModelUse, ...] = ()

    @property
    def is_supported(self) -> bool:
        return self.value >= self.threshold


class SupportEstimator:
    """Judges by similarity and words with an embedder, by words alone without. Safe to share.

    Args:
        embedder: the one whose vectors `estimate` is given; None for the tier without a model.
        min_support: a threshold in place of the calibrated one; 0 never refuses what was found.
    """

    def __init__(self, embedder: Embedder | None = None, *, min_support: float | None = None) -> None:
        self._embedder = embedder
        self._min_support = min_support
        self._background: NDArray[np.float32] | None = None

    def estimate(
        self,
        question: str,
        passages: Sequence[Passage],
        *,
        vectors: SentenceVectors | None = None,
        query_vector: NDArray[np.float32] | None = None,
    ) -> Support:
        """Support of the passages for the question, or for the worse off of two facts that it joins.

        Nothing to read supports nothing.

        Args:
            passages: best first.
            vectors: the request's; what extraction embedded is not embedded again.
            query_vector: (dimension,) of the question. Without it, or without `vectors`, words decide.
        """
        facts = facts_asked(question)
        by_words = self._embedder is None or vectors is None or query_vector is None
        query_vectors: list[NDArray[np.float32] | None] = [None] * len(facts)
        uses: tuple[ModelUse, ...] = ()
        if not by_words:
            query_vectors, uses = self._embed(facts, query_vector)
        found = [
            weigh_sentences(
                fact,
                passages,
                vectors=None if by_words else vectors,
                query_vector=vector,
                background=None if by_words else self._background_vectors(),
            )
            for fact, vector in zip(facts, query_vectors, strict=True)
        ]
        if not found[0]:
            return Support(0.0, self._min_support or 1.0, ("The passages hold no text.",), uses)
        weakest = min((self._judge(evidence) for evidence in found), key=lambda support: support.value)
        return replace(weakest, uses=uses)

    def _judge(self, found: Sequence[Evidence]) -> Support:
        """By the sentence that speaks most for an answer."""
        regression = regression_for(found[0])
        strongest = max(found, key=regression.probability)
        value = regression.probability(strongest)
        threshold = regression.threshold if self._min_support is None else self._min_support
        return Support(value, threshold, strongest.objections() if value < threshold else ())

    def _embed(
        self, facts: Sequence[str], query_vector: NDArray[np.float32] | None
    ) -> tuple[list[NDArray[np.float32] | None], tuple[ModelUse, ...]]:
        """The question's own vector where it asks for one fact; those of its facts otherwise."""
        if len(facts) == 1 or self._embedder is None:
            return [query_vector] * len(facts), ()
        embedded = self._embedder.embed_queries(facts)
        return list(embedded.vectors), (embedding_use(self._embedder, embedded),)

    def _background_vectors(self) -> NDArray[np.float32]:
        """Computed once, which no single question has to pay."""
        if self._background is None:
            assert self._embedder is not None
            self._background = self._embedder.embed_passages(BACKGROUND_SENTENCES).vectors
        return self._background
