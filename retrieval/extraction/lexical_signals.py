"""What can be told of a sentence without a model: words, their order, their surroundings, its kind."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieval.extraction.answer_types import asked_type, matches_type
from retrieval.extraction.candidates import Candidate
from retrieval.support.background import BACKGROUND_TERMS
from retrieval.term_weights import TermWeights, term_pairs_of

Signal = NDArray[np.float64]  # (num_candidates,)

# No text answers "how many" with these words; left in, they would be its rarest.
_QUESTION_WORDS = re.compile(
    r"\b(?:what|which|who|whom|whose|when|where|why|how|did|does|do)\b"
    r"|什么样的?|什么|怎么样?|怎样|如何|多少|哪些?|哪(?:一)?(?:个|位|名|座|年|里|儿)|为何|何时|何人|谁|几(?!乎|何)|请问|吗|呢",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class LexicalSignals:
    """One value a candidate for each signal; all but `kind` lie between 0 and 1.

    `own`: the question's weight in words that the sentence holds, `with_context` what headings and
    the sentence it leans on add, `near` the mean of its neighbours' `own`. `pairs`: the share of
    the question's word pairs. `kind`: 1 if it holds such a thing as is asked for, -1 if not, 0 if
    that cannot be told. `passage`: 1 in the best passage, 1/2 in the next, 1/3, … `heading`: whether it is
    one. `length`: from 0 for none to 1 for about fifty words.
    """

    own: Signal
    with_context: Signal
    near: Signal
    pairs: Signal
    kind: Signal
    passage: Signal
    heading: Signal
    length: Signal


def lexical_signals(question: str, candidates: Sequence[Candidate]) -> LexicalSignals:
    """The signals of all `candidates`, which are in text order."""
    asked = _QUESTION_WORDS.sub(" ", question)
    texts = [c.terms for c in candidates]
    # Unrelated sentences count too, so that "the" and 的 are common in a short text as well.
    weights = TermWeights.of(asked, [*texts, *BACKGROUND_TERMS])
    own = np.array([weights.overlap(c.terms) for c in candidates])
    wide = np.array([weights.overlap(c.terms | c.context) for c in candidates])
    wanted = term_pairs_of(asked)[1]
    kind = asked_type(question)
    return LexicalSignals(
        own=own,
        with_context=wide - own,
        near=neighbours_mean(own, candidates),
        pairs=np.array(
            [len(wanted & term_pairs_of(c.text)[1]) / len(wanted) if wanted else 0.0 for c in candidates]
        ),
        kind=np.array([matches_type(c.text, kind, question) for c in candidates]),
        passage=np.array([1.0 / (1 + c.passage_index) for c in candidates]),
        heading=np.array([float(c.is_heading) for c in candidates]),
        length=np.array([min(1.0, math.log1p(len(c.terms)) / 4.0) for c in candidates]),
    )


def neighbours_mean(values: NDArray[Any], candidates: Sequence[Candidate]) -> Signal:
    """For each candidate the mean of `values` over the sentences beside it in its passage.

    One that is alone in its passage has its own.
    """
    result = values.astype(np.float64)
    for i, candidate in enumerate(candidates):
        beside = [
            float(values[j])
            for j in (i - 1, i + 1)
            if 0 <= j < len(candidates) and candidates[j].passage_index == candidate.passage_index
        ]
        if beside:
            result[i] = sum(beside) / len(beside)
    return result


def relative(values: NDArray[Any]) -> Signal:
    """From 0 for the least to 1 for the greatest; all 0 where they are alike."""
    if not len(values):
        return np.zeros(0)
    low, high = float(values.min()), float(values.max())
    return (values.astype(np.float64) - low) / (high - low) if high > low else np.zeros(len(values))
