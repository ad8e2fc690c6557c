"""Extraction by a model that reads the question and each sentence together."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from core.usage import ModelUse
from inference.protocols import Reranker, Tokenizer
from retrieval.extraction.candidates import Candidate, list_candidates
from retrieval.extraction.lexical_signals import lexical_signals
from retrieval.extraction.protocol import Extraction
from retrieval.extraction.rule import rule_scores
from retrieval.extraction.selection import Limit, best_first, choose, in_front, to_extraction
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
        started = time.perf_counter()
        limit = Limit.of(num_sentences, max_tokens)
        candidates = list_candidates(passages)
        signals = lexical_signals(question, candidates)
        scores, uses = rule_scores(signals), list[ModelUse]()
        if candidates:
            read = sorted(best_first(scores)[: self._max_sentences])
            reply = self._reranker.rerank(question, [with_support(candidates, i) for i in read])
            uses.append(
                ModelUse(
                    self._reranker.name,
                    self._reranker.revision,
                    num_tokens=reply.num_tokens,
                    seconds=reply.seconds,
                )
            )
            scores = in_front(scores, read, reply.scores)
        chosen = choose(best_first(scores), candidates, passages, limit=limit, count=self._count)
        return to_extraction(
            chosen,
            candidates,
            passages,
            scores=scores,
            overlaps=signals.own,
            count=self._count,
            uses=uses,
            started=started,
            method=self.name,
        )


def with_support(candidates: Sequence[Candidate], i: int) -> str:
    """A sentence after the one it leans on, without which "It was built in 1920" answers nothing."""
    leans_on = candidates[i].leans_on
    return candidates[i].text if leans_on is None else f"{candidates[leans_on].text} {candidates[i].text}"
