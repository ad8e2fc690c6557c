"""Two evaluations of the same questions: what is better, and whether that is more than chance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.paired_bootstrap import paired_bootstrap
from evaluation.report import QUALITY, WORK
from evaluation.text import fold
from storage.models import EvaluationItem

COMPARED = (*QUALITY, *WORK, "cost")
MAX_NAMED = 20
_LESS_IS_BETTER = frozenset({"prompt_tokens", "completion_tokens", "ttft_seconds", "total_seconds", "cost"})

Pair = tuple[EvaluationItem, EvaluationItem]


@dataclass(frozen=True, slots=True)
class Matched:
    """Questions that both evaluations have, and those that only one has."""

    pairs: tuple[Pair, ...]
    only_first: tuple[EvaluationItem, ...]
    only_second: tuple[EvaluationItem, ...]


def match_questions(first: Iterable[EvaluationItem], second: Iterable[EvaluationItem]) -> Matched:
    """Pairs of the same question in the same conversation, in the first evaluation's order.

    A question that stands twice in both is paired in order.
    """
    waiting: dict[tuple[str, ...], list[EvaluationItem]] = defaultdict(list)
    for item in second:
        waiting[_key(item)].append(item)
    pairs: list[Pair] = []
    only_first: list[EvaluationItem] = []
    for item in first:
        same = waiting.get(_key(item))
        if same:
            pairs.append((item, same.pop(0)))
        else:
            only_first.append(item)
    left = sorted((item for items in waiting.values() for item in items), key=lambda item: item.position)
    return Matched(tuple(pairs), tuple(only_first), tuple(left))


def compare(first: Iterable[EvaluationItem], second: Iterable[EvaluationItem]) -> dict[str, Any]:
    """Differences `second - first` over the questions that both have scored, in all and by language.

    `same_questions` is false where the sets differ: then the figures are of the common part alone,
    and what stands in one only is named (the first `MAX_NAMED`).
    """
    matched = match_questions(first, second)
    scored = [pair for pair in matched.pairs if pair[0].metrics and pair[1].metrics]
    by_language: dict[str, list[Pair]] = defaultdict(list)
    for pair in scored:
        by_language[pair[0].question["language"]].append(pair)
    return {
        "same_questions": not matched.only_first and not matched.only_second,
        "num_common": len(matched.pairs),
        "num_compared": len(scored),
        "num_gold_differs": sum(_gold(a) != _gold(b) for a, b in matched.pairs),
        "num_only_first": len(matched.only_first),
        "num_only_second": len(matched.only_second),
        "only_first": [item.question["question"] for item in matched.only_first[:MAX_NAMED]],
        "only_second": [item.question["question"] for item in matched.only_second[:MAX_NAMED]],
        "metrics": _compare_metrics(scored),
        "by_language": {
            language: {"num_compared": len(pairs), "metrics": _compare_metrics(pairs)}
            for language, pairs in sorted(by_language.items())
        },
    }


def _compare_metrics(pairs: Sequence[Pair]) -> dict[str, dict[str, Any]]:
    compared: dict[str, dict[str, Any]] = {}
    for name in COMPARED:
        values = [
            (a, b) for a, b in ((_value(x, name), _value(y, name)) for x, y in pairs) if None not in (a, b)
        ]
        if values:
            compared[name] = _compare_values(
                name, [a or 0.0 for a, _ in values], [b or 0.0 for _, b in values]
            )
    return compared


def _compare_values(name: str, first: Sequence[float], second: Sequence[float]) -> dict[str, Any]:
    difference = paired_bootstrap(first, second)
    better = None
    if difference.is_clear and name != "cached_tokens":
        better = "second" if (difference.mean > 0) is not (name in _LESS_IS_BETTER) else "first"
    return {
        "first": sum(first) / len(first),
        "second": sum(second) / len(second),
        "difference": difference.mean,
        "low": difference.low,
        "high": difference.high,
        "share_opposite": difference.share_opposite,
        "num": len(first),
        "better": better,
    }


def _value(item: EvaluationItem, name: str) -> float | None:
    if name == "cost":
        return None if item.cost is None else float(item.cost)
    value = item.metrics.get(name)
    return None if value is None else float(value)


def _key(item: EvaluationItem) -> tuple[str, ...]:
    turns = item.question["history"]
    return (fold(item.question["question"]), *(fold(turn["question"]) for turn in turns))


def _gold(item: EvaluationItem) -> tuple[Any, ...]:
    gold = item.question
    return gold["answers"], gold["evidence"], gold["answerable"]
