"""Vectors of short texts, computed once a request however many steps ask for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from core.usage import ModelUse
from inference.protocols import Embedder

_SHARED: dict[tuple[str, ...], NDArray[np.float32]] = {}


class SentenceVectors:
    """The embedder's passage vectors for the length of one request; not shared between threads.

    Reranking, extraction and the estimate of support look at the same sentences: whichever comes
    first computes them, and `take_use` says what it cost since it was last asked.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._vectors: dict[str, NDArray[np.float32]] = {}
        self._num_tokens = 0
        self._seconds = 0.0

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(num_texts, dimension), in the order given."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if missing:
            embedded = self._embedder.embed_passages(missing)
            self._vectors.update(zip(missing, embedded.vectors, strict=True))
            self._num_tokens += sum(embedded.num_tokens)
            self._seconds += embedded.seconds
        if not texts:
            return np.empty((0, self._embedder.dimension), dtype=np.float32)
        return np.stack([self._vectors[text] for text in texts])

    def embed_unbilled(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As `embed`, for texts that are the same in every request: computed once a process, which
        no single question has to pay."""
        key = (self._embedder.revision, *texts)
        if key not in _SHARED:
            _SHARED[key] = self._embedder.embed_passages(texts).vectors
        return _SHARED[key]

    def take_use(self) -> ModelUse:
        """What was computed since the last call."""
        use = ModelUse(
            self._embedder.name, self._embedder.revision, num_tokens=self._num_tokens, seconds=self._seconds
        )
        self._num_tokens, self._seconds = 0, 0.0
        return use
