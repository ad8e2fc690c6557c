"""How likely it is that passages answer a question at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inference.protocols import Embedder
from retrieval.passages import Passage
from retrieval.sentence_vectors import SentenceVectors
from retrieval.support.background import BACKGROUND_SENTENCES
from retrieval.support.coefficients import regression_for
from retrieval.support.evidence import Evidence, weigh_evidence


@dataclass(frozen=True, slots=True)
class Support:
    """`value` is the probability, from 0 to 1, that the passages answer; refuse under `threshold`.

    `reasons` says in words what spoke against them, strongest first; empty where they are supported.
    """

    value: float
    threshold: float
    reasons: tuple[str, ...] = ()

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
        """Support of the passages for the question; nothing to read has none.

        Args:
            passages: best first.
            vectors: the request's; what extraction embedded is not embedded again.
            query_vector: (dimension,) of the question. Without it, or without `vectors`, words decide.
        """
        by_words = self._embedder is None or vectors is None or query_vector is None
        evidence = weigh_evidence(
            question,
            passages,
            vectors=None if by_words else vectors,
            query_vector=query_vector,
            background=None if by_words else self._background_vectors(),
        )
        if evidence is None:
            return Support(0.0, self._min_support or 1.0, ("The passages hold no text.",))
        return self._judge(evidence)

    def _judge(self, evidence: Evidence) -> Support:
        regression = regression_for(evidence)
        value = regression.probability(evidence)
        threshold = regression.threshold if self._min_support is None else self._min_support
        return Support(value, threshold, evidence.objections() if value < threshold else ())

    def _background_vectors(self) -> NDArray[np.float32]:
        """Computed once, which no single question has to pay."""
        if self._background is None:
            assert self._embedder is not None
            self._background = self._embedder.embed_passages(BACKGROUND_SENTENCES).vectors
        return self._background
