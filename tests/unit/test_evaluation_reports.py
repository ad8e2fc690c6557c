"""Reports and comparisons: numbers, plots, and foreign text that must stay text."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime
from decimal import Decimal
from html.parser import HTMLParser
from typing import Any

import pytest

from core.html.plots import Axis, Interval, axis_for, grouped_bars, histogram, intervals, scatter
from evaluation.comparison import compare, match_questions
from evaluation.html_report import ReportHeader, render_comparison, render_report
from evaluation.questions import GoldQuestion
from evaluation.report import refusal_scores, summarize
from evaluation.report_words import words
from storage.models import EvaluationItem

HOSTILE = "<script>alert(1)</script>\"'><img src=https://evil.test/x onerror=alert(2)>{{ 7*7 }}\u202e]]>"
HEADER = ReportHeader(
    "eval_1", HOSTILE, HOSTILE, "succeeded", datetime(2026, 11, 30, tzinfo=UTC), {"stop": [HOSTILE]}
)


def item(position: int, question: str = "", *, f1: float = 0.5, **fields: Any) -> EvaluationItem:
    gold = GoldQuestion(
        question=question or f"问题 {position}？",
        **({"answers": ["x"]} | fields.pop("gold", {})),
    )
    refused = fields.pop("refused", False)
    row = EvaluationItem(
        evaluation_id="eval_1",
        position=position,
        tenant_id="ten_1",
        question=gold.as_json(position=position),
        result={
            "outcome": "refused" if refused else "answered",
            "text": "x [1]",
            "citations": [],
            "stage_tokens": {"embed": 10 * (position + 1)},
            "burned_tokens": 0,
            "currency": "USD",
        },
        metrics={
            "f1": f1,
            "refused": float(refused),
            "refusal_correct": 1.0,
            "total_seconds": 1.0 + position,
        },
        error=None,
        cost=Decimal("0.000001"),
    )
    for name, value in fields.items():
        setattr(row, name, value)
    return row


def hostile_item(position: int = 0) -> EvaluationItem:
    gold = {
        "id": HOSTILE,
        "answers": [HOSTILE],
        "evidence": [{"text": HOSTILE, "document": HOSTILE, "page": 2}],
        "language": HOSTILE,
        "history": [{"question": HOSTILE, "answer": HOSTILE}],
    }
    cited = {
        "number": 1,
        "quote": HOSTILE,
        "document_name": HOSTILE,
        "first_page": 3,
        "is_verbatim": False,
        "supports_gold": False,
    }
    row = item(position, HOSTILE, gold=gold)
    row.result |= {"text": HOSTILE, "citations": [cited]}
    return row


class Page(HTMLParser):
    """The tags and attributes of a page, and the texts outside its style sheet."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def require_harmless(html: str) -> Page:
    page = Page(html)
    assert not {"script", "img", "iframe", "link", "object", "a", "form", "base"} & set(page.tags)
    names = {name for name, _ in page.attributes}
    assert not {name for name in names if name.startswith("on")} | names & {"src", "href", "style"}
    assert "url(" not in html
    assert "@import" not in html
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in page.attributes
    return page


@pytest.mark.parametrize("language", ["en", "zh"])
def test_foreign_text_stays_text_everywhere_in_a_report(language: Any) -> None:
    failed = item(1, metrics={}, result={"answer_id": "ans_1"}, error={"code": HOSTILE, "detail": HOSTILE})
    items = [hostile_item(), failed]
    html = render_report(HEADER, summarize(items, num_questions=3), items, language=language)
    page = require_harmless(html)
    assert "".join(page.texts).count("{{ 7*7 }}") >= 12  # shown, and not computed
    assert html.count("<svg") == 4
    assert words(language)["plot_latency"] in page.texts


def test_foreign_text_stays_text_everywhere_in_a_comparison() -> None:
    comparison = compare([hostile_item(0), item(1, HOSTILE + "1")], [hostile_item(0), item(1, HOSTILE + "2")])
    html = render_comparison(HEADER, HEADER, comparison, language="zh")
    page = require_harmless(html)
    assert words("zh")["other_questions"] in "".join(page.texts)
    assert "".join(page.texts).count("{{ 7*7 }}") >= 6


def test_a_report_of_nothing_is_a_page_all_the_same() -> None:
    waiting = item(0, metrics={}, result={}, cost=None)
    html = render_report(HEADER, summarize([waiting], num_questions=1), [waiting])
    assert html.count("Nothing to plot.") == 4
    assert "0 scored, 0 failed, 1 not asked" in html


def test_every_word_is_there_in_both_languages() -> None:
    english, chinese = words("en"), words("zh")
    assert english.keys() == chinese.keys()
    assert all(english.values())
    assert all(chinese.values())


# ---- numbers ---------------------------------------------------------------------------------


def test_means_are_over_what_applies_and_by_language() -> None:
    items = [
        item(0, f1=1.0),
        item(1, "In English?", f1=0.5),
        item(2, refused=True, gold={"answerable": False}, metrics={"refused": 1.0, "refusal_correct": 1.0}),
        item(3, metrics={}, error={"code": "x", "detail": "y"}),
    ]
    report = summarize(items, num_questions=5)
    assert (report["num_questions"], report["num_scored"], report["num_failed"]) == (5, 3, 1)
    assert report["metrics"]["f1"] == {"mean": 0.75, "num": 2}
    assert report["by_language"]["zh"]["metrics"]["f1"] == {"mean": 1.0, "num": 1}
    assert report["by_language"]["en"]["refusal"]["precision"] is None
    assert report["work"]["total_seconds"] == {"mean": 1.5, "p50": 1.0, "p95": 2.0, "total": 3.0, "num": 2}
    assert report["stage_tokens"] == {"embed": 60}
    assert report["costs"] == [{"currency": "USD", "amount": "0.000003", "mean": "0.000001", "num": 3}]


def test_refusals_are_scored_as_a_detector_of_the_unanswerable() -> None:
    # (refused, answerable)
    scores = refusal_scores([(True, False), (True, True), (False, False), (False, True), (False, True)])
    assert scores == {
        "num_refused": 2,
        "num_unanswerable": 2,
        "accuracy": 0.6,
        "precision": 0.5,
        "recall": 0.5,
        "f1": 0.5,
    }
    assert refusal_scores([(False, True)])["f1"] is None
    assert refusal_scores([])["accuracy"] is None


# ---- comparison ------------------------------------------------------------------------------


def test_a_better_setting_is_named_with_its_interval() -> None:
    first = [item(i, f1=0.2 + 0.01 * (i % 7)) for i in range(40)]
    second = [item(i, f1=0.6 + 0.01 * (i % 5)) for i in range(40)]
    for row in second:
        row.metrics |= {"total_seconds": 0.5}
    comparison = compare(first, second)
    assert comparison["same_questions"]
    assert comparison["num_compared"] == 40
    f1 = comparison["metrics"]["f1"]
    assert f1["better"] == "second"
    assert 0 < f1["low"] < f1["difference"] < f1["high"]
    assert comparison["metrics"]["total_seconds"]["better"] == "second"  # less is better
    assert comparison["metrics"]["cost"]["better"] is None
    assert comparison["by_language"]["zh"]["num_compared"] == 40
    assert compare(second, first)["metrics"]["f1"]["better"] == "first"


def test_questions_are_paired_whatever_their_order_and_ids() -> None:
    first = [item(0, "一？"), item(1, "二？"), item(2, "二？"), item(3, "only here?")]
    second = [item(0, " 二 ？"), item(1, "一？", gold={"id": "other"}), item(2, "nur dort?")]
    matched = match_questions(first, second)
    assert [(a.position, b.position) for a, b in matched.pairs] == [(0, 1), (1, 0)]
    assert [row.position for row in matched.only_first] == [2, 3]
    assert [row.position for row in matched.only_second] == [2]
    comparison = compare(first, second)
    assert not comparison["same_questions"]
    assert comparison["only_second"] == ["nur dort?"]


def test_the_same_words_in_another_conversation_are_another_question() -> None:
    history = [{"question": "谁？", "answer": "关羽"}]
    comparison = compare([item(0, "多重？")], [item(0, "多重？", gold={"history": history})])
    assert comparison["num_common"] == 0
    assert comparison["metrics"] == {}


def test_a_gold_answer_that_changed_is_told() -> None:
    comparison = compare([item(0, "多重？")], [item(0, "多重？", gold={"answers": ["y"]})])
    assert comparison["num_gold_differs"] == 1


# ---- plots -----------------------------------------------------------------------------------


def test_plots_are_well_formed_and_escape_their_texts() -> None:
    share = Axis(0.0, 1.0, HOSTILE, str)
    plots = [
        histogram([0.0, 0.5, 1.0], share, title=HOSTILE, count_label=HOSTILE),
        scatter([(1.0, 0.5, HOSTILE)], axis_for([1.0], label=HOSTILE, write=str), share, title=HOSTILE),
        grouped_bars({HOSTILE: {HOSTILE: 0.3}}, share, title=HOSTILE, series=[HOSTILE, "b"]),
        intervals([Interval(HOSTILE, 0.1, -0.1, 0.3, "even")], title=HOSTILE, write=str),
    ]
    for plot in plots:
        root = ElementTree.fromstring(str(plot))
        assert {element.tag for element in root.iter()} <= {
            "svg",
            "g",
            "rect",
            "circle",
            "line",
            "text",
            "title",
        }


def test_a_histogram_counts_every_value_once() -> None:
    plot = histogram(
        [0.0, 0.05, 0.1, 0.99, 1.0], Axis(0, 1, "", lambda v: f"{v:.1f}"), title="", count_label=""
    )
    counts = [int(found) for found in re.findall(r"<title>[^<]*: (\d+)</title>", plot)]
    assert counts == [2, 1, 0, 0, 0, 0, 0, 0, 0, 2]


@pytest.mark.parametrize(
    ("values", "high"), [([], 1.0), ([0.0], 1.0), ([3.0], 3.0), ([97.0], 100.0), ([0.0013], 0.0015)]
)
def test_axes_end_at_round_numbers(values: list[float], high: float) -> None:
    axis = axis_for(values, label="", write=str)
    assert axis.low == 0
    assert axis.high == pytest.approx(high)
    assert 2 <= len(axis.ticks) <= 8
