"""Extraction by rules alone: words and their order, surroundings, and the kind of thing asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from inference.protocols import Tokenizer
from retrieval.extraction.lexical_signals import (
    LexicalSignals,
    Signal,
    relative,
)
from retrieval.extraction.protocol import Extraction
from retrieval.extraction.selection import Selection, best_first
from retrieval.passages import Passage
from retrieval.sentence_vectors import SentenceVectors


class RuleExtractor:
    """`PassageExtractor` without any model: a few milliseconds of one core a question."""

    name = "rule"

    def __init__(self, tokenizer: Tokenizer) -> None:
        """`tokenizer` is the generator's."""
        self._count = tokenizer.count

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
        """What fits the question best by rules; `vectors` stay as they are."""
        selection = Selection.begin(
            question, passages, num_sentences=num_sentences, max_tokens=max_tokens, count=self._count
        )
        scores = rule_scores(selection.signals)
        return selection.end(selection.choose(best_first(scores)), scores, method=self.name)


def rule_scores(signals: LexicalSignals) -> Signal:
    """A score a candidate, by weights learned on XQuAD, CMRC 2018, GitLab's handbook and MultiFieldQA.

    Only the weight of headings is set by hand: those sets have few.
    """
    return (
        1.9 * signals.own
        + 2.9 * relative(signals.own)
        + 0.8 * signals.with_context
        + 0.4 * signals.near
        + 1.1 * signals.pairs
        + 0.4 * signals.kind
        + 1.6 * signals.passage
        - 1.0 * signals.heading
        - 0.3 * signals.length
    )
