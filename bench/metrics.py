"""Retrieval metrics, per question, and what the difference of two systems is worth."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

_NOT_CONTENT = re.compile(r"[\W_]+")


def recall_at(ranking: Sequence[str], relevant: Mapping[str, int], k: int) -> float:
    """Share of the relevant (gain above 0) among the first `k`."""
    wanted = {key for key, gain in relevant.items() if gain > 0}
    return len(wanted.intersection(ranking[:k])) / len(wanted) if wanted else 0.0


def reciprocal_rank(ranking: Sequence[str], relevant: Mapping[str, int], k: int = 10) -> float:
    """1 / rank of the first relevant one among the first `k`, else 0."""
    for rank, key in enumerate(ranking[:k], start=1):
        if relevant.get(key, 0) > 0:
            return 1.0 / rank
    return 0.0


def ndcg_at(ranking: Sequence[str], relevant: Mapping[str, int], k: int = 10) -> float:
    """Discounted cumulative gain over the ideal one, with linear gains."""
    ideal = _dcg(sorted(relevant.values(), reverse=True)[:k])
    return _dcg([relevant.get(key, 0) for key in ranking[:k]]) / ideal if ideal else 0.0


def contains_answer(text: str, answers: Sequence[str]) -> bool:
    """Whether one of `answers` stands in `text`, white space, case and punctuation aside."""
    content = content_of(text)
    return any(answer and answer in content for answer in map(content_of, answers))


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean of `a - b` with its 95 % interval."""

    mean: float
    low: float
    high: float


def paired_bootstrap(
    a: Sequence[float], b: Sequence[float], *, num_samples: int = 2000, seed: int = 0
) -> Difference:
    """How much better `a` is than `b` on the same questions, drawn again with replacement."""
    differences = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    if not len(differences):
        return Difference(0.0, 0.0, 0.0)
    draws = np.random.default_rng(seed).integers(0, len(differences), (num_samples, len(differences)))
    means = differences[draws].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return Difference(float(differences.mean()), float(low), float(high))


def _dcg(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def content_of(text: str) -> str:
    """Letters and digits alone, in one case and width."""
    return _NOT_CONTENT.sub("", unicodedata.normalize("NFKC", text).casefold())
