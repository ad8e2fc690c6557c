"""Which words of a question matter, judged by the texts at hand."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from retrieval.text_analysis import analyze


@lru_cache(maxsize=1 << 14)  # the same passages come back: a hot document is analysed once
def term_pairs_of(text: str) -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
    """The distinct terms of `text`, and the pairs that follow one another in it."""
    terms = analyze(text)
    return frozenset(terms), frozenset(pairwise(terms))


def terms_of(text: str) -> frozenset[str]:
    """The distinct terms of `text`."""
    return term_pairs_of(text)[0]


@dataclass(frozen=True, slots=True)
class TermWeights:
    """A question's terms with their inverse frequency among some texts; `total` is their sum."""

    weights: dict[str, float]
    total: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", sum(self.weights.values()))

    @classmethod
    def of(cls, question: str, texts: Sequence[frozenset[str]]) -> TermWeights:
        """Weights log(1 + (n - f + 0.5) / (f + 0.5)), BM25's, for f of n texts with the term."""
        frequencies = Counter(term for terms in texts for term in terms)
        absent = {term: len(texts) - frequencies[term] for term in terms_of(question)}
        return cls(
            {
                term: math.log(1.0 + (num + 0.5) / (frequencies[term] + 0.5))
                for term, num in sorted(absent.items())
            }
        )

    def overlap(self, terms: Collection[str]) -> float:
        """The share of the question's weight that `terms` hold, from 0 to 1."""
        if not self.total:
            return 0.0
        return sum([weight for term, weight in self.weights.items() if term in terms]) / self.total
