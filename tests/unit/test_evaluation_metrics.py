from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.metrics import contains_answer, exact_match, ndcg_at, recall_at, reciprocal_rank, token_f1
from evaluation.paired_bootstrap import paired_bootstrap
from evaluation.text import fold, fold_with_offsets, strip_citation_marks, tokens_of


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The  Quick, brown fox!", ["quick", "brown", "fox"]),
        ("ＡＢＣ　１２３", ["abc", "123"]),
        ("刘备、关羽、张飞。", ["刘", "备", "关", "羽", "张", "飞"]),
        ("重82斤", ["重", "82", "斤"]),
        ("GPT-4 和 BERT", ["gpt4", "和", "bert"]),
        ("$1,234.50", ["123450"]),
        ("方案A", ["方", "案", "a"]),
        ("a", ["a"]),
        ("“ ”", []),
        ("", []),
    ],
)
def test_tokens_leave_out_what_does_not_count(text: str, tokens: list[str]) -> None:
    assert tokens_of(text) == tokens


@pytest.mark.parametrize(
    ("answer", "golds", "em"),
    [
        ("The answer.", ["answer"], 1.0),
        ("六", ["六。"], 1.0),
        ("（六）", ["六"], 1.0),
        ("８２斤", ["82斤"], 1.0),
        ("方案A", ["方案B"], 0.0),
        ("方案A", ["方案"], 0.0),
        ("six consoles", ["six"], 0.0),
        ("two", ["one", "two"], 1.0),
        ("≥", ["≥"], 1.0),
        ("+", ["-"], 0.0),
        ("", ["x"], 0.0),
        ("x", [], 0.0),
    ],
)
def test_exact_match(answer: str, golds: list[str], em: float) -> None:
    assert exact_match(answer, golds) == em


def test_f1_takes_the_best_gold_answer_and_counts_repeated_tokens_once_each() -> None:
    assert token_f1("six consoles", ["six"]) == pytest.approx(2 / 3)
    assert token_f1("six consoles", ["five", "six consoles"]) == 1.0
    assert token_f1("six six six", ["six"]) == pytest.approx(0.5)
    assert token_f1("刘备和关羽", ["刘备、关羽、张飞"]) == pytest.approx(2 * 4 / 11)
    assert token_f1("", ["x"]) == token_f1("x", []) == token_f1("x", [""]) == 0.0


def test_an_answer_is_contained_by_tokens_and_not_by_letters() -> None:
    assert contains_answer("There are six consoles.", ["six"])
    assert not contains_answer("There are sixty.", ["six"])
    assert contains_answer("念刘备、关羽、张飞，虽然异姓", ["刘备 关羽 张飞"])
    assert contains_answer("又名“冷艳锯”，重八十二斤。", ["冷艳锯"])
    assert not contains_answer("anything", ["…"])


def test_citation_marks_are_no_part_of_an_answer() -> None:
    assert strip_citation_marks("Six. [1] 六个。[2][13]") == "Six. 六个。"
    assert strip_citation_marks("a[i] stays") == "a[i] stays"


def test_folding_finds_words_across_line_breaks_and_widths_and_knows_where() -> None:
    text = "前言\n又名“冷\n艳锯”， 重８２斤"
    folded = fold_with_offsets(text)
    [(start, end)] = folded.spans_of("冷艳锯”，重82斤")
    assert text[start:end] == "冷\n艳锯”， 重８２斤"
    assert folded.spans_of("没有") == folded.spans_of("  ") == []
    assert fold("e\u0301") == fold("é")
    assert fold("ﬁne") == "fine"
    assert folded.spans_of("重") == [(text.index("重"), text.index("重") + 1)]


def test_overlapping_occurrences_are_all_found() -> None:
    assert fold_with_offsets("哈哈哈").spans_of("哈哈") == [(0, 2), (1, 3)]


def test_recall_and_reciprocal_rank_count_what_was_found() -> None:
    ranks = [2, None, 1]
    assert recall_at(ranks) == pytest.approx(2 / 3)
    assert recall_at(ranks, 1) == pytest.approx(1 / 3)
    assert reciprocal_rank(ranks) == 1.0
    assert reciprocal_rank([None]) == recall_at([]) == recall_at([None]) == 0.0


def test_ndcg_is_one_for_the_best_order_and_falls_with_rank_and_with_what_is_missing() -> None:
    assert ndcg_at([1, 2], 10) == ndcg_at([1, 1], 10) == 1.0
    assert ndcg_at([2], 10) == pytest.approx(1 / math.log2(3))
    assert ndcg_at([1, None], 10) == pytest.approx(1 / (1 + 1 / math.log2(3)))
    assert ndcg_at([11], 10) == ndcg_at([], 10) == 0.0


@given(st.lists(st.one_of(st.none(), st.integers(1, 12)), max_size=8))
def test_ndcg_stays_between_nothing_and_all(ranks: list[int | None]) -> None:
    assert 0.0 <= ndcg_at(ranks, 10) <= 1.0 + 1e-9


@given(st.text(), st.text())
def test_scores_stay_between_nothing_and_all_for_any_text(answer: str, gold: str) -> None:
    for score in (exact_match, token_f1, contains_answer):
        assert 0.0 <= score(answer, [gold]) <= 1.0
    assert token_f1(answer, [gold]) >= exact_match(answer, [gold]) - 1e-9


def test_a_clear_difference_has_an_interval_without_zero() -> None:
    first = [0.0, 0.2, 0.1, 0.3] * 20
    difference = paired_bootstrap(first, [value + 0.5 for value in first])
    assert difference.mean == pytest.approx(0.5)
    assert difference.is_clear
    assert difference.share_opposite == 0.0


def test_chance_is_not_taken_for_a_difference() -> None:
    difference = paired_bootstrap([0.0, 1.0] * 20, [1.0, 0.0] * 20)
    assert difference.mean == 0.0
    assert difference.low < 0 < difference.high
    assert not difference.is_clear
    assert difference.share_opposite > 0.5
    same = paired_bootstrap([0.4, 0.6], [0.4, 0.6])
    assert (same.low, same.high, same.share_opposite) == (0.0, 0.0, 1.0)
    assert paired_bootstrap([], []).share_opposite == 1.0
