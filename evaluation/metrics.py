"""Scores of one question: what was found, what was answered, what was cited."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from evaluation.text import tokens_of


def exact_match(answer: str, golds: Sequence[str]) -> float:
    """1 where the answer is one of `golds`, token by token, else 0."""
    return float(any(_is_same(answer, gold) for gold in golds))


def token_f1(answer: str, golds: Sequence[str]) -> float:
    """The best F1 over `golds` of the tokens that both texts have, as SQuAD scores."""
    return max(
        (_f1(tokens_of(answer), tokens_of(gold), _is_same(answer, gold)) for gold in golds), default=0.0
    )


def contains_answer(text: str, golds: Sequence[str]) -> float:
    """1 where the tokens of one of `golds` stand in `text` side by side, else 0.

    By tokens, so that `six` is not found in `sixty`.
    """
    tokens = tokens_of(text)
    return float(any(_contains(tokens, tokens_of(gold)) for gold in golds))


def recall_at(first_ranks: Sequence[int | None], k: int | None = None) -> float:
    """Share of the wanted that were found, among the first `k` (None: among all).

    `first_ranks` has for each wanted thing the rank (from 1) at which it was first found, or None.
    """
    if not first_ranks:
        return 0.0
    return sum(rank is not None and (k is None or rank <= k) for rank in first_ranks) / len(first_ranks)


def reciprocal_rank(first_ranks: Sequence[int | None]) -> float:
    """1 / the rank at which the first of the wanted was found; 0 where none was."""
    return max((1.0 / rank for rank in first_ranks if rank is not None), default=0.0)


def ndcg_at(first_ranks: Sequence[int | None], k: int) -> float:
    """Discounted cumulative gain over the best order there is.

    A passage gains one for each wanted thing that it is the first to hold. The best order has the
    passages with the largest gains first, and what was not found one in a passage behind them.
    """
    gains = Counter(rank for rank in first_ranks if rank is not None)
    missing = sum(rank is None for rank in first_ranks)
    best = sorted([*gains.values(), *[1] * missing], reverse=True)[:k]
    ideal = sum(gain / math.log2(rank + 1) for rank, gain in enumerate(best, start=1))
    found = sum(gain / math.log2(rank + 1) for rank, gain in gains.items() if rank <= k)
    return found / ideal if ideal else 0.0


def _is_same(answer: str, gold: str) -> bool:
    a, b = tokens_of(answer), tokens_of(gold)
    # A symbol alone, `≥` or `+`, has no tokens left to compare.
    return a == b if a or b else answer.strip() == gold.strip()


def _f1(answer: Sequence[str], gold: Sequence[str], is_same: bool) -> float:
    if not answer or not gold:
        return float(is_same)
    common = sum((Counter(answer) & Counter(gold)).values())
    return 2 * common / (len(answer) + len(gold))


def _contains(tokens: Sequence[str], wanted: Sequence[str]) -> bool:
    if not wanted:
        return False
    last = len(tokens) - len(wanted)
    return any(tokens[i : i + len(wanted)] == wanted for i in range(last + 1))
