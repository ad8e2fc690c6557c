from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.sentences import (
    MAX_HAN_SENTENCE_CHARACTERS,
    MAX_SENTENCE_CHARACTERS,
    is_bullet,
    is_table_row,
    split_sentences,
)


def texts(source: str) -> list[str]:
    return [sentence.text for sentence in split_sentences(source)]


def test_abbreviations_initials_and_decimals_do_not_end_a_sentence() -> None:
    assert texts("Dr. J. K. Smith paid $3.5 million to the U.S. Army. See Fig. 3 (p. 4). OK?") == [
        "Dr. J. K. Smith paid $3.5 million to the U.S. Army.",
        "See Fig. 3 (p. 4).",
        "OK?",
    ]


def test_closing_quotes_stay_with_their_sentence() -> None:
    assert texts('He said "It works." Then he left.') == ['He said "It works."', "Then he left."]


def test_dots_before_a_small_letter_go_on() -> None:
    assert texts("He left... and came back. Done.") == ["He left... and came back.", "Done."]


def test_chinese_marks_and_quotes() -> None:
    assert texts("又名“冷艳锯”，重八十二斤。玄德曰：“汝何人？”飞曰：“吾乃张飞也！”") == [
        "又名“冷艳锯”，重八十二斤。",
        "玄德曰：“汝何人？”",
        "飞曰：“吾乃张飞也！”",
    ]


def test_chinese_needs_no_space_and_keeps_its_decimals() -> None:
    assert texts("版本3.5已发布。请升级！") == ["版本3.5已发布。", "请升级！"]


def test_wrapped_prose_is_one_sentence_and_bullets_are_several() -> None:
    source = "This line is wrapped here and goes\non until it ends.\n\n- first item\n- second item\n1. third"
    assert texts(source) == [
        "This line is wrapped here and goes\non until it ends.",
        "- first item",
        "- second item",
        "1. third",
    ]


def test_a_heading_stands_alone() -> None:
    source = "Chapter One\nIt was a bright cold day in April, and the clocks were striking."
    assert texts(source)[0] == "Chapter One"


def test_chinese_clauses_of_a_list_are_told_apart() -> None:
    assert texts("规定如下：\n（一）第一项；\n（二）第二项。") == [
        "规定如下：",
        "（一）第一项；",
        "（二）第二项。",
    ]


def test_rows_of_a_table_stand_alone_whatever_their_cells_hold() -> None:
    source = "Teams:\n| Name | Task |\n| --- | --- |\n| Dr. Li | Reads. Writes. |\nAfter it."
    assert texts(source) == [
        "Teams:",
        "| Name | Task |",
        "| --- | --- |",
        "| Dr. Li | Reads. Writes. |",
        "After it.",
    ]
    assert [is_table_row(text) for text in texts(source)] == [False, True, True, True, False]


def test_items_are_known_and_headings_are_none() -> None:
    assert all(map(is_bullet, ["- a", "3. b", "（二）丙", "• d"]))
    assert not any(map(is_bullet, ["# A", "A", "3.5 metres", "二人"]))


def test_long_chinese_is_cut_sooner_and_best_at_a_semicolon() -> None:
    clause = "原告以夫妻感情破裂为由诉至法院,请求判令离婚"
    sentences = texts("；".join([clause] * 20) + "。")
    assert all(len(text) <= MAX_HAN_SENTENCE_CHARACTERS for text in sentences)
    assert all(text.endswith(("；", "。")) for text in sentences)
    assert len(texts("word " * 79)) == 1


@pytest.mark.parametrize("source", ["", "   \n\t", "\n\n\n"])
def test_nothing_gives_nothing(source: str) -> None:
    assert split_sentences(source) == ()


def test_endless_text_is_cut() -> None:
    sentences = split_sentences("word " * 500)
    assert all(len(sentence.text) <= MAX_SENTENCE_CHARACTERS for sentence in sentences)


_ALPHABET = st.sampled_from(list("ab A.!?。！？…；，,:：\n\r\t\"'”’」)（一）1-•张飞U.S"))


@given(st.text(alphabet=_ALPHABET, max_size=300) | st.text(max_size=200))
def test_spans_are_exact_ordered_and_lose_nothing(source: str) -> None:
    sentences = split_sentences(source)
    assert all(source[s.start : s.end] == s.text for s in sentences)
    assert all(a.end <= b.start for a, b in pairwise(sentences))
    assert "".join("".join(s.text.split()) for s in sentences) == "".join(source.split())
