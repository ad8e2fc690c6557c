"""Questions made to stand alone without a model, in English and Chinese."""

from __future__ import annotations

import pytest

from retrieval.history import RuleCondenser, Turn
from retrieval.history.phrases import Need
from retrieval.history.phrases_by_language import need_of, phrases_of

FOUNDING = [Turn("When was Meridian Foods founded?", "Meridian Foods was founded in 1987 in Bergen.", 1)]
SCHOOL = [Turn("中国人民大学文学院前身是什么", "文学院的前身是华北联合大学文艺学院。", 1)]


def condense(question: str, turns: list[Turn]) -> str:
    return RuleCondenser().condense(question, turns=turns).text


@pytest.mark.parametrize(
    ("question", "need"),
    [
        ("Who founded it?", Need.REFERS),
        ("How many people do they employ in Norway?", Need.REFERS),
        ("Is that still true?", Need.REFERS),
        ("Why?", Need.REFERS),
        ("And in 2020?", Need.CONTINUES),
        ("What about the Oslo plant?", Need.CONTINUES),
        ("No, I meant the dividend.", Need.CONTINUES),
        ("I am in Oslo.", Need.STATES),
        ("I meant the plant in Bergen", Need.STATES),
        ("I am in Oslo, may I order?", Need.NONE),
        ("我在上海。", Need.STATES),
        ("我说的是文学院", Need.STATES),
        ("我在上海可以办吗", Need.NONE),
        ("Annual revenue?", Need.SHORT),
        ("What is a cooperative?", Need.DEFINES),
        ("Can you tell me more about salmon farming?", Need.DEFINES),
        ("How is Norwegian salmon exported to Japan by air?", Need.NONE),
        ("Is it possible to export salmon to Japan by air?", Need.NONE),
        ("How long does it take to smoke salmon in Bergen?", Need.NONE),
        ("它成立于哪一年", Need.REFERS),
        ("他们在挪威有多少员工？", Need.REFERS),
        ("该院人才培养有哪些主要特色", Need.REFERS),
        ("为什么？", Need.REFERS),
        ("那2020年的营业额呢？", Need.REFERS),
        ("图书馆呢？", Need.CONTINUES),
        ("保研率是多少", Need.SHORT),
        ("学生主要就业方向有哪些？", Need.SHORT),
        ("北京大学的图书馆有多少藏书？", Need.NONE),
    ],
)
def test_how_far_a_question_depends_on_what_was_said(question: str, need: Need) -> None:
    assert need_of(question) is need


def test_a_statement_completes_the_question_before_it() -> None:
    asked = [Turn("How do I file a restraining order?", "It depends on the county.", 1)]
    assert condense("I am in Sacramento.", asked) == "How do I file a restraining order? I am in Sacramento."
    assert (
        condense("我在上海。", [Turn("怎么办理居住证？", "要看城市。", 1)]) == "怎么办理居住证？ 我在上海。"
    )
    assert condense("I am in Sacramento.", []) == "I am in Sacramento."


def test_the_question_that_a_statement_completes_may_lean_on_others_itself() -> None:
    turns = [*FOUNDING, Turn("Who founded it?", "", 2)]
    assert (
        condense("I mean the first plant.", turns)
        == "Who founded it? (Meridian Foods) I mean the first plant."
    )


def test_phrases_are_runs_of_content_words_and_know_names() -> None:
    found = phrases_of("How does the restraining order of Sacramento County work?")
    assert [(phrase.text, phrase.is_name) for phrase in found] == [
        ("restraining order", False),
        ("Sacramento County", True),
    ]


def test_chinese_names_stay_whole() -> None:
    assert ("中国人民大学文学院", True) in [
        (p.text, p.is_name) for p in phrases_of("中国人民大学文学院成立于哪一年")
    ]


def test_a_pronoun_gets_what_was_asked_about() -> None:
    assert condense("Who founded it?", FOUNDING) == "Who founded it? (Meridian Foods)"
    assert condense("它成立于哪一年？", SCHOOL).startswith("它成立于哪一年？（中国人民大学文学院")


def test_a_follow_up_keeps_the_thread() -> None:
    assert "Meridian Foods" in condense("And in 2020?", FOUNDING)
    assert "中国人民大学文学院" in condense("图书馆呢？", SCHOOL)


def test_a_question_that_stands_alone_is_left_alone() -> None:
    question = "How is Norwegian salmon exported to Japan by air?"
    condensed = RuleCondenser().condense(question, turns=FOUNDING)
    assert (condensed.text, condensed.method) == (question, "none")
    assert condense("北京大学的图书馆有多少藏书？", SCHOOL) == "北京大学的图书馆有多少藏书？"


def test_a_first_question_is_left_alone() -> None:
    assert condense("Who founded it?", []) == "Who founded it?"


def test_the_newest_topic_wins() -> None:
    turns = [*FOUNDING, Turn("Where is Northwind Shipping based?", "In Oslo.", 2)]
    added = condense("Who founded it?", turns).partition("(")[2]
    assert added.startswith("Northwind Shipping")


def test_a_topic_survives_turns_that_do_not_name_it() -> None:
    turns = [*FOUNDING, Turn("Who founded it?", "Ada Lund.", 2), Turn("And why?", "To sell fish.", 3)]
    assert "Meridian Foods" in condense("How many people does it employ?", turns)


def test_what_is_long_past_is_forgotten() -> None:
    turns = [*FOUNDING, *(Turn("Really?", "Yes.", number) for number in range(2, 12))]
    assert condense("Who founded it?", turns) == "Who founded it?"


def test_the_fuller_name_of_what_the_question_names_comes_first() -> None:
    turns = [Turn("How do I get a restraining order without giving my address to the court?", "", 1)]
    assert condense("How is that order filed?", turns).partition("(")[2].startswith("restraining order")


def test_what_the_question_says_already_is_not_added_again() -> None:
    assert condense("Is it true that Meridian Foods owns it?", FOUNDING).count("Meridian Foods") == 1


def test_the_language_of_the_question_decides_the_brackets() -> None:
    assert condense("它成立于哪一年？", FOUNDING).startswith("它成立于哪一年？（Meridian Foods")
    assert condense("When was it founded?", SCHOOL).startswith("When was it founded? (中国人民大学文学院")


@pytest.mark.parametrize("question", ["？？？", "...", "the of and", "它", "it", "a" * 5000, "那" * 3000])
def test_odd_questions_are_condensed_without_an_error(question: str) -> None:
    assert condense(question, FOUNDING).startswith(question)
