"""What an evaluation came to: means, refusals, tokens, times and cost, of all and by language."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from accounting.money import format_amount
from storage.models import EvaluationItem

QUALITY = (
    "recall_at_1",
    "recall_at_3",
    "recall_at_5",
    "recall",
    "mrr",
    "ndcg_at_10",
    "em",
    "f1",
    "contains_answer",
    "citation_precision",
    "citations_verbatim",
    "refusal_correct",
)
"""From 0 to 1, more is better."""

WORK = ("prompt_tokens", "cached_tokens", "completion_tokens", "ttft_seconds", "total_seconds")
"""Tokens and seconds, less is better (but for cached tokens)."""


def summarize(items: Iterable[EvaluationItem], *, num_questions: int) -> dict[str, Any]:
    """The report as stored and shown; questions that were not asked or failed are counted, not scored.

    Means are over the questions to which a metric applies, `num` of them.
    """
    all_items = list(items)
    scored = [item for item in all_items if item.metrics]
    by_language: dict[str, list[EvaluationItem]] = defaultdict(list)
    for item in scored:
        by_language[item.question["language"]].append(item)
    return {
        "num_questions": num_questions,
        "num_scored": len(scored),
        "num_failed": sum(item.error is not None for item in all_items),
        **_group(scored),
        "work": {name: spread for name in WORK if (spread := _spread(_values(scored, name)))},
        "stage_tokens": _stage_tokens(scored),
        "burned_tokens": sum(item.result.get("burned_tokens", 0) for item in scored),
        "costs": _costs(scored),
        "by_language": {
            language: {"num_scored": len(group), **_group(group)}
            for language, group in sorted(by_language.items())
        },
    }


def refusal_scores(outcomes: Sequence[tuple[bool, bool]]) -> dict[str, Any]:
    """Precision, recall and F1 of refusing, from pairs (refused, answerable).

    Refusing an unanswerable question is the hit. What divides by nothing is None.
    """
    hits = sum(refused and not answerable for refused, answerable in outcomes)
    refused = sum(refused for refused, _ in outcomes)
    unanswerable = sum(not answerable for _, answerable in outcomes)
    correct = sum(refused is not answerable for refused, answerable in outcomes)
    return {
        "num_refused": refused,
        "num_unanswerable": unanswerable,
        "accuracy": _share(correct, len(outcomes)),
        "precision": _share(hits, refused),
        "recall": _share(hits, unanswerable),
        "f1": _share(2 * hits, refused + unanswerable),
    }


def _group(items: Sequence[EvaluationItem]) -> dict[str, Any]:
    outcomes = [(item.metrics["refused"] == 1.0, bool(item.question["answerable"])) for item in items]
    return {
        "metrics": {name: mean for name in QUALITY if (mean := _mean(_values(items, name)))},
        "refusal": refusal_scores(outcomes),
    }


def _values(items: Sequence[EvaluationItem], name: str) -> list[float]:
    return [item.metrics[name] for item in items if name in item.metrics]


def _mean(values: Sequence[float]) -> dict[str, Any] | None:
    return {"mean": sum(values) / len(values), "num": len(values)} if values else None


def _spread(values: Sequence[float]) -> dict[str, Any] | None:
    if not values:
        return None
    return {
        "mean": sum(values) / len(values),
        "p50": _quantile(values, 0.5),
        "p95": _quantile(values, 0.95),
        "total": sum(values),
        "num": len(values),
    }


def _quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _stage_tokens(items: Sequence[EvaluationItem]) -> dict[str, int]:
    sums: dict[str, int] = defaultdict(int)
    for item in items:
        for stage, num_tokens in item.result.get("stage_tokens", {}).items():
            sums[stage] += num_tokens
    return dict(sorted(sums.items()))


def _costs(items: Sequence[EvaluationItem]) -> list[dict[str, Any]]:
    """A sum for each currency; there is one unless prices changed theirs meanwhile."""
    amounts: dict[str, list[Decimal]] = defaultdict(list)
    for item in items:
        if item.cost is not None:
            amounts[item.result.get("currency") or ""].append(item.cost)
    return [
        {
            "currency": currency,
            "amount": format_amount(sum(each, Decimal(0))),
            "mean": format_amount((sum(each, Decimal(0)) / len(each)).quantize(Decimal("1e-12"))),
            "num": len(each),
        }
        for currency, each in sorted(amounts.items())
    ]


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
