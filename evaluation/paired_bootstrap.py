"""What the difference of two systems on the same questions is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

NUM_SAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean of `second - first` with its 95 % interval.

    `share_opposite` is a two-sided p-value of the bootstrap: twice the share of the draws whose mean
    lies on the other side of zero (or on it). Small: the difference is hardly chance.
    """

    mean: float
    low: float
    high: float
    share_opposite: float

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0


def paired_bootstrap(
    first: Sequence[float], second: Sequence[float], *, num_samples: int = NUM_SAMPLES, seed: int = 0
) -> Difference:
    """How much more `second` has than `first` on the same questions, drawn again with replacement.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993; percentile interval.
    """
    differences = np.asarray(second, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    if not len(differences):
        return Difference(0.0, 0.0, 0.0, 1.0)
    random = np.random.default_rng(seed)
    # A draw at a time: thousands of questions times thousands of draws would fill memory.
    means = np.array(
        [
            differences[random.integers(0, len(differences), len(differences))].mean()
            for _ in range(num_samples)
        ]
    )
    low, high = np.percentile(means, [2.5, 97.5])
    opposite = min(float((means <= 0).mean()), float((means >= 0).mean()))
    return Difference(float(differences.mean()), float(low), float(high), min(1.0, 2 * opposite))
