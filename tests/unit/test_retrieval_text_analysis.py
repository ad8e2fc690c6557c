from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.text_analysis import MAX_TERM_CHARACTERS, analyze


def test_english_words_become_stems_whatever_their_case() -> None:
    assert analyze("Running RUNNERS run") == ["run", "runner", "run"]


def test_full_width_and_ligatures_are_normalized() -> None:
    assert analyze("ＰＤＦ ﬁnal") == ["pdf", "final"]


def test_chinese_becomes_search_words() -> None:
    assert "青龙" in analyze("关云长的青龙偃月刀")


def test_chinese_names_unknown_to_the_dictionary_become_bigrams() -> None:
    terms = analyze("贾里德擒杀")
    assert "擒杀" in terms


def test_document_and_question_share_a_name() -> None:
    document, question = analyze("张飞造丈八点钢矛。"), analyze("张飞打造了什么兵器？")
    assert "张飞" in set(document) & set(question)


@pytest.mark.parametrize(("text", "term"), [("1,234", "1234"), ("3.5", "3.5"), ("１２３", "123")])
def test_numbers_stay_whole(text: str, term: str) -> None:
    assert analyze(text) == [term]


def test_kana_and_hangul_become_bigrams() -> None:
    assert analyze("カタカナ") == ["カタ", "タカ", "カナ"]
    assert analyze("한국어") == ["한국", "국어"]


def test_mixed_scripts_are_told_apart() -> None:
    assert analyze("使用GPU训练") == ["使用", "gpu", "训练"]


def test_long_terms_are_cut() -> None:
    assert analyze("x" * 500) == ["x" * MAX_TERM_CHARACTERS]


def test_punctuation_alone_gives_nothing() -> None:
    assert analyze(' +-&&||!(){}[]^"~*?:\\/ 。！？，、') == []


@given(st.text(max_size=200))
def test_terms_never_hold_white_space_nor_exceed_the_limit(text: str) -> None:
    for term in analyze(text):
        assert term
        assert len(term) <= MAX_TERM_CHARACTERS
        assert not any(character.isspace() for character in term)
