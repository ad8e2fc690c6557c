"""Retrieval metrics, per question."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence

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


def _dcg(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def content_of(text: str) -> str:
    """Letters and digits alone, in one case and width."""
    return _NOT_CONTENT.sub("", unicodedata.normalize("NFKC", text).casefold())
