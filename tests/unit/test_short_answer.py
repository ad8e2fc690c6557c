"""Short answers: the kind of phrase asked for, verbatim, or none."""

from __future__ import annotations

import pytest

from core.ids import DocumentId
from retrieval.extraction import ExtractedSentence
from retrieval.short_answer import ShortAnswer, short_answer

_START = 1000


def _sentences(*texts: str) -> list[ExtractedSentence]:
    return [
        ExtractedSentence(
            document_id=DocumentId(f"d{i}"),
            passage_index=0,
            start=_START * (i + 1),
            end=_START * (i + 1) + len(text),
            text=text,
            score=1.0 - i / 10,
            overlap=0.5,
        )
        for i, text in enumerate(texts)
    ]


def _text(question: str, *texts: str) -> str | None:
    answer = short_answer(question, _sentences(*texts))
    return answer.text if answer else None


@pytest.mark.parametrize(
    ("question", "sentence", "answer"),
    [
        ("When was the bridge opened?", "The bridge was opened on 12 May 1907 by the mayor.", "12 May 1907"),
        (
            "In what year was the treaty signed?",
            "The treaty was signed on April 4, 1949 in Washington.",
            "1949",
        ),
        ("桥是什么时候建成的？", "这座桥于1907年5月12日建成，由市长剪彩。", "1907年5月12日"),
        ("条约是哪一年签订的？", "该条约于1949年4月4日在华盛顿签订。", "1949年"),
        ("冰河期从何时开始？", "冰河期从距今74000年开始，持续了很久。", "距今74000年"),
    ],
)
def test_a_question_for_a_time_gets_the_time(question: str, sentence: str, answer: str) -> None:
    assert _text(question, sentence) == answer


@pytest.mark.parametrize(
    ("question", "sentence", "answer"),
    [
        ("How many people live in the town?", "In 2011 the town had 4,312 people in 90 streets.", "4,312"),
        ("How much did the repair cost?", "The repair took two years and cost $3.5 million.", "$3.5 million"),
        ("镇上有多少人？", "2011年镇上有4312人，住在九十条街上。", "4312人"),
        ("建筑业占国内生产总值的比例是多少？", "建筑业占国内生产总值的6%至9%。", "6%至9%"),
        ("How long does the warranty last?", "The warranty of 1998 lasts three years.", "three years"),
        ("保修期多长时间？", "自2020年起保修期为18个月。", "18个月"),
        ("主镜的口径是多少？", "主镜的口径是二点四米，重约一吨。", "二点四米"),
        ("产量的比例是多少？", "该矿占总产量的百分之二十五点三。", "百分之二十五点三"),
    ],
)
def test_a_question_for_an_amount_gets_it_with_its_unit(question: str, sentence: str, answer: str) -> None:
    assert _text(question, sentence) == answer


@pytest.mark.parametrize(
    ("question", "sentence", "answer"),
    [
        ("Who designed the tower?", "The tower was designed by Maria Keller in 1903.", "Maria Keller"),
        ("谁设计了这座塔？", "这座塔由王建国设计。", "王建国"),
        ("What is the colony called?", "The colony is called New Holland.", "New Holland"),
    ],
)
def test_a_name_is_found_where_one_is_asked_for(question: str, sentence: str, answer: str) -> None:
    assert _text(question, sentence) == answer


def test_the_number_of_its_own_clause_is_nearer_than_that_of_the_clause_before() -> None:
    assert _text("新教徒的比例是多少？", "天主教徒占56.2%，希腊东正教徒占5%，新教徒占2.8%。") == "2.8%"


def test_what_the_question_says_itself_is_no_answer() -> None:
    assert _text("When did the war that began in 1914 end?", "The war of 1914 ended in 1918.") == "1918"
    assert _text("1914年开始的战争何时结束？", "1914年的战争于1918年结束。") == "1918年"


def test_a_date_is_taken_from_a_later_sentence_where_the_first_has_none() -> None:
    answer = short_answer(
        "When was the mill built?", _sentences("The mill was built of oak.", "It dates from 1742.")
    )
    assert answer == ShortAnswer(text="1742", document_id=DocumentId("d1"), start=2014, end=2018)


def test_the_fourth_sentence_is_not_looked_at() -> None:
    assert (
        _text("When was it built?", "It is old.", "It is red.", "It is tall.", "It dates from 1742.") is None
    )


@pytest.mark.parametrize(
    "question",
    [
        "Why did the mill close?",
        "How does the mill work?",
        "Is the mill open in 1999?",
        "Describe the mill.",
        "磨坊为什么关闭？",
        "磨坊如何运作？",
        "磨坊是否开放？",
        "请总结磨坊的历史。",
    ],
)
def test_no_phrase_is_given_where_a_sentence_says_it_better(question: str) -> None:
    assert (
        _text(question, "The mill closed in 1999 because the river was dry.", "磨坊因河水干涸于1999年关闭。")
        is None
    )


def test_a_when_that_only_joins_asks_for_no_time() -> None:
    assert _text(
        "What is it called when steam turns to water?", "Steam turning to water is condensation."
    ) not in (
        None,
        "",
    )


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("What did the miller sell?", "“The miller sold fine flour, bran and oats,” she wrote."),
        ("磨坊主卖什么？", "磨坊主卖“面粉”、麸皮和燕麦。"),
        ("Where is the mill?", "The mill (built in 1742) is in Lower Saxony."),
        ("磨坊在哪里？", "磨坊位于下萨克森州的小镇。"),
    ],
)
def test_the_span_is_exact_and_has_no_punctuation_around_it(question: str, sentence: str) -> None:
    answer = short_answer(question, _sentences(sentence))
    assert answer is not None
    assert sentence[answer.start - _START : answer.end - _START] == answer.text
    assert answer.text[0].isalnum()
    assert answer.text[-1].isalnum()


@pytest.mark.parametrize("text", ["", "...", "？！", "| a | b |", "的", "a", "12"])
def test_odd_sentences_do_no_harm(text: str) -> None:
    for question in ("What is it?", "这是什么？", "When?", "", "多少", "?"):
        answer = short_answer(question, _sentences(text))
        assert answer is None or answer.text in text


def test_no_sentences_no_answer() -> None:
    assert short_answer("What is it?", []) is None
