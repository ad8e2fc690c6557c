"""A logistic regression over the evidence of the sentence that speaks most for an answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from retrieval.support.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Regression:
    """`weights` by the evidence's field. Under `threshold` the passages are better refused."""

    weights: Mapping[str, float]
    bias: float
    threshold: float

    def probability(self, evidence: Evidence) -> float:
        """That the passages answer, from 0 to 1, if no other sentence speaks more for it."""
        total = self.bias + sum(w * getattr(evidence, name) for name, w in self.weights.items())
        return 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, total))))
