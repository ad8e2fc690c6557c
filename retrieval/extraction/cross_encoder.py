"""Extraction by a model that reads the question and each sentence together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from core.usage import ModelUse
from inference.model_uses import reranking_use
from inference.protocols import Reranker, Tokenizer
from retrieval.extraction.candidates import Candidate
from retrieval.extraction.protocol import Extraction
from retrieval.extraction.rule import rule_scores
from retrieval.extraction.selection import Selection, best_first, in_front
from retrieval.passages import Passage
from retrieval.sentence_vectors import SentenceVectors

MAX_READ_SENTENCES = 48
"""What a question costs at most; the rest stand behind, by rule."""


class CrossEncoderExtractor:
    """`PassageExtractor` by a `Reranker` over sentences."""

    name = "cross_encoder"

    def __init__(
        self, reranker: Reranker, tokenizer: Tokenizer, *, max_sentences: int = MAX_READ_SENTENCES
    ) -> None:
        """`tokenizer` is the generator's."""
        self._reranker = reranker
        self._count = tokenizer.count
        self._max_sentences = max_sentences

    def extract(
        self,
        question: str,
        passages: Sequence[Passage],
        *,
        num_sentences: int | None = None,
        max_tokens: int | None = None,
        vectors: SentenceVectors,
        query_vector: NDArray[np.float32] | None = None,
        cache_salt: str = "",
    ) -> Extraction:
        """What the cross-encoder scores best; `vectors` stay as they are."""
        selection = Selection.begin(
            question, passages, num_sentences=num_sentences, max_tokens=max_tokens, count=self._count
        )
        scores, uses = rule_scores(selection.signals), list[ModelUse]()
        candidates = selection.candidates
        if candidates:
            read = sorted(best_first(scores)[: self._max_sentences])
            reply = self._reranker.rerank(question, [with_support(candidates, i) for i in read])
            uses.append(reranking_use(self._reranker, reply))
            scores = in_front(scores, read, reply.scores)
        chosen = selection.choose(best_first(scores))
        return selection.end(chosen, scores, uses=uses, method=self.name)


def with_support(candidates: Sequence[Candidate], i: int) -> str:
    """A sentence after the one it leans on, without which "It was built in 1920" answers nothing."""
    leans_on = candidates[i].leans_on
    return candidates[i].text if leans_on is None else f"{candidates[leans_on].text} {candidates[i].text}"
