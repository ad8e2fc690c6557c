"""An embedder without a model: texts that share terms are alike, always in the same way."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from inference.protocols import Embeddings, Tokenizer
from retrieval.text_analysis import analyze


class CharacterTokenizer:
    """One token a character."""

    def encode(self, text: str) -> list[int]:
        return [ord(character) for character in text]

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(map(chr, token_ids))

    def count(self, text: str) -> int:
        return len(text)

    def token_starts(self, text: str) -> list[int]:
        return list(range(len(text)))


class HashingEmbedder:
    """Counts what it was asked, so that tests can say what must not be computed again."""

    def __init__(self, *, dimension: int = 256, revision: str = "hashing-1") -> None:
        self._dimension = dimension
        self._revision = revision
        self.passages_embedded: list[str] = []
        self.queries_embedded: list[str] = []

    @property
    def name(self) -> str:
        return "hashing"

    @property
    def revision(self) -> str:
        return self._revision

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def max_tokens(self) -> int:
        return 512

    @property
    def tokenizer(self) -> Tokenizer:
        return CharacterTokenizer()

    def embed_passages(self, texts: Sequence[str]) -> Embeddings:
        self.passages_embedded.extend(texts)
        return self._embed(texts)

    def embed_queries(self, texts: Sequence[str]) -> Embeddings:
        self.queries_embedded.extend(texts)
        return self._embed(texts)

    def _embed(self, texts: Sequence[str]) -> Embeddings:
        vectors = np.full((len(texts), self._dimension), 1e-3, dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for term in analyze(text):
                digest = hashlib.sha256(term.encode()).digest()
                row[int.from_bytes(digest[:4], "big") % self._dimension] += 1.0
            row /= np.linalg.norm(row)
        return Embeddings(vectors, tuple(len(analyze(text)) + 2 for text in texts), 0.0)
