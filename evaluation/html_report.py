"""An evaluation's report and a comparison of two as HTML pages; templates also isolate the writing direction of
foreign text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from jinja2 import Template
from markupsafe import Markup

from core.html.page import CONTENT_SECURITY_POLICY, ReportLanguage, load_template
from core.html.plots import Axis, Interval, axis_for, grouped_bars, histogram, intervals, scatter
from evaluation.report import QUALITY, WORK
from evaluation.report_words import words
from storage.models import EvaluationItem

_BARS = ("f1", "contains_answer", "recall_at_5", "citation_precision")


@dataclass(frozen=True, slots=True)
class ReportHeader:
    """What stands above an evaluation's report. `parameters` are those that were set."""

    id: str
    name: str
    collection: str
    status: str
    created_at: datetime
    parameters: dict[str, Any]


def render_report(
    header: ReportHeader,
    report: dict[str, Any],
    items: Sequence[EvaluationItem],
    *,
    language: ReportLanguage = "en",
) -> str:
    """The report of one evaluation, with plots and every question."""
    named = words(language)
    return _template("report.html.jinja").render(
        language=language,
        words=named,
        policy=CONTENT_SECURITY_POLICY,
        header=header,
        report=report,
        items=items,
        quality=QUALITY,
        work=WORK,
        plots=_plots(report, [item for item in items if item.metrics], named),
    )


def render_comparison(
    first: ReportHeader,
    second: ReportHeader,
    comparison: dict[str, Any],
    *,
    language: ReportLanguage = "en",
) -> str:
    """A comparison as `compare` gives it."""
    named = words(language)
    return _template("comparison.html.jinja").render(
        language=language,
        words=named,
        policy=CONTENT_SECURITY_POLICY,
        first=first,
        second=second,
        comparison=comparison,
        plot=_difference_plot(comparison["metrics"], named),
    )


# ---- plots -----------------------------------------------------------------------------------


def _plots(
    report: dict[str, Any], scored: Sequence[EvaluationItem], named: dict[str, str]
) -> list[tuple[str, Markup | None]]:
    """Title and plot; None where there is nothing to plot."""
    share = Axis(0.0, 1.0, named["f1"], _number)
    return [
        (
            named["plot_f1"],
            _histogram([i.metrics["f1"] for i in scored if "f1" in i.metrics], share, "plot_f1", named),
        ),
        (named["plot_latency"], _latency(scored, named)),
        (named["plot_tokens"], _tokens_and_f1(scored, share, named)),
        (named["plot_languages"], _languages(report, named)),
    ]


def _histogram(values: Sequence[float], axis: Axis, title: str, named: dict[str, str]) -> Markup | None:
    if not values:
        return None
    return histogram(values, axis, title=named[title], count_label=named["num_questions"])


def _latency(scored: Sequence[EvaluationItem], named: dict[str, str]) -> Markup | None:
    seconds = [item.metrics["total_seconds"] for item in scored if "total_seconds" in item.metrics]
    axis = axis_for(seconds, label=named["seconds"], write=_number)
    return _histogram(seconds, axis, "plot_latency", named)


def _tokens_and_f1(scored: Sequence[EvaluationItem], y: Axis, named: dict[str, str]) -> Markup | None:
    points = [
        (float(sum(item.result["stage_tokens"].values())), item.metrics["f1"], item.question["question"][:80])
        for item in scored
        if "f1" in item.metrics
    ]
    if not points:
        return None
    x = axis_for([point[0] for point in points], label=named["tokens"], write=_count)
    return scatter(points, x, y, title=named["plot_tokens"])


def _languages(report: dict[str, Any], named: dict[str, str]) -> Markup | None:
    groups = {
        language: {named[name]: group["metrics"][name]["mean"] for name in _BARS if name in group["metrics"]}
        for language, group in report["by_language"].items()
    }
    if not any(groups.values()):
        return None
    axis = Axis(0.0, 1.0, "", _number)
    return grouped_bars(groups, axis, title=named["plot_languages"], series=[named[name] for name in _BARS])


def _difference_plot(metrics: dict[str, Any], named: dict[str, str]) -> Markup | None:
    kinds = {"second": "better", "first": "worse", None: "even"}
    rows = [
        Interval(named[name], found["difference"], found["low"], found["high"], kinds[found["better"]])
        for name, found in metrics.items()
        if name in QUALITY
    ]
    return intervals(rows, title=named["plot_differences"], write=_signed) if rows else None


# ---- numbers ---------------------------------------------------------------------------------


def _number(value: float | None) -> str:
    """As many digits as one reads: `0.87`, `12.3`, `1,234`; a dash for None."""
    if value is None:
        return "–"
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}".removesuffix(".00") or "0"


def _precise(value: float | None) -> str:
    if value is None:
        return "–"
    size = abs(value)
    if size and size < 0.001:
        return f"{value:.2e}"
    return f"{value:,.0f}" if size >= 1000 else f"{value:.3f}"


def _signed(value: float) -> str:
    return f"{value:+.3f}" if abs(value) < 10 else f"{value:+,.0f}"


def _count(value: float) -> str:
    return f"{value:,.0f}"


@cache
def _template(name: str) -> Template:
    return load_template("evaluation", name, number=_number, precise=_precise, signed=_signed, count=_count)
