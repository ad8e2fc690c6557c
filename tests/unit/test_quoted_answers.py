"""Answers that quote before they answer: only quotes that stand in a passage count."""

from __future__ import annotations

import pytest

from core.ids import DocumentId
from generation.answer_draft import compose
from generation.citations import Citation
from generation.instructions import SYSTEM, instructions_for
from generation.quoted import QuotedAnswer, parse_quoted, quoted_statements
from retrieval.passages import Passage
from tests.unit.test_attribution import passage

MOONS = passage("Neptune has fourteen known\nmoons. Triton is the “largest” of them. It is party to none.")
BLADE = passage("关云长造青龙偃月刀，又名冷艳锯，重八十二斤。张飞造丈八点钢矛。", document="doc_z", start=7)
BOTH = (MOONS, BLADE)


def texts(parsed: QuotedAnswer) -> list[str]:
    return [quote.text for quote in parsed.quotes]


def test_quotes_come_before_the_answer_with_their_place_in_the_document() -> None:
    parsed = parse_quoted(
        "> [1] Neptune has fourteen known moons.\n> [2] 张飞造丈八点钢矛。\nAnswer: Fourteen. [1]", BOTH
    )
    assert texts(parsed) == ["Neptune has fourteen known\nmoons.", "张飞造丈八点钢矛。"]
    assert [(q.document_id, q.start) for q in parsed.quotes] == [("doc_a", 100), ("doc_z", 29)]
    assert (parsed.answer, parsed.num_dropped) == ("Fourteen. [1]", 0)


@pytest.mark.parametrize(
    "line",
    [
        '> [1] triton is the "largest" of them',
        ">[1]Triton  is the “largest”\tof them!",
        '> “Triton is the "largest" of them.” [1]',
        "＞ Triton is the “largest” of them。",
    ],
)
def test_spaces_case_and_the_shape_of_punctuation_may_differ(line: str) -> None:
    assert texts(parse_quoted(f"{line}\nAnswer: Triton.", BOTH)) == ["Triton is the “largest” of them."]


@pytest.mark.parametrize(
    "line",
    [
        "> 关云长造青龙偃月刀,又名冷艳锯,重八十二斤",
        "> [2] 「关云长造青龙偃月刀， 又名冷艳锯， 重八十二斤。」",
    ],
)
def test_the_width_of_chinese_punctuation_may_differ(line: str) -> None:
    parsed = parse_quoted(f"{line}\n答案：八十二斤。[2]", BOTH)
    assert texts(parsed) == ["关云长造青龙偃月刀，又名冷艳锯，重八十二斤。"]
    assert parsed.answer == "八十二斤。[2]"


@pytest.mark.parametrize(
    "line",
    [
        "> [1] Neptune has thirteen known moons.",
        "> 关云长造丈八点钢矛。",
        "> [1] art",
        "> of",
        "> [1] arty to none",
    ],
)
def test_what_no_passage_holds_or_every_passage_could_hold_is_dropped_and_counted(line: str) -> None:
    parsed = parse_quoted(f"{line}\nAnswer: So it is.", BOTH)
    assert (parsed.quotes, parsed.num_dropped, parsed.answer) == ((), 1, "So it is.")


def test_a_quote_is_taken_from_the_passage_its_mark_names() -> None:
    twin = passage(MOONS.text, document="doc_b")
    line = "Triton is the “largest” of them."
    assert parse_quoted(f"> [2] {line}\nAnswer: x", (MOONS, twin)).quotes[0].document_id == "doc_b"
    assert parse_quoted(f"> [7] {line}\nAnswer: x", (MOONS, twin)).quotes[0].document_id == "doc_a"


def test_without_a_label_what_is_not_quoted_is_the_answer() -> None:
    parsed = parse_quoted("> Neptune has fourteen known moons.\nThere are fourteen.\n\nTriton is one.", BOTH)
    assert (len(parsed.quotes), parsed.answer) == (1, "There are fourteen.\n\nTriton is one.")
    assert parse_quoted("Just an answer.", BOTH) == QuotedAnswer((), 0, "Just an answer.")
    assert parse_quoted("", BOTH) == QuotedAnswer((), 0, "")


def test_the_same_quote_twice_is_one() -> None:
    line = "> Neptune has fourteen known moons.\n"
    assert len(parse_quoted(line * 3 + "Answer: x", BOTH).quotes) == 1


def cite_all(quotes: QuotedAnswer, others: tuple[Passage, ...] = ()) -> list[Citation]:
    return [
        Citation(i, DocumentId(q.document_id), "", q.start, q.end, 1, 1, q.text)
        for i, q in enumerate(quotes.quotes, 1)
    ]


def test_quotes_stand_above_the_answer_and_share_their_numbers_with_it() -> None:
    parsed = parse_quoted(
        "> [1] Neptune has fourteen known moons.\n> [2] 关云长造青龙偃月刀，又名冷艳锯，重八十二斤。\n"
        "Answer: Neptune has fourteen moons. [1]",
        BOTH,
    )
    composed = compose(quoted_statements(parsed, "How many moons?", BOTH), cite_all(parsed))
    assert composed.text == (
        "“Neptune has fourteen known moons.” [1]\n“关云长造青龙偃月刀，又名冷艳锯，重八十二斤。” [2]\n\n"
        "Neptune has fourteen moons. [1]"
    )
    assert [composed.text[s.start : s.end] for s in composed.statements] == [
        s.text for s in composed.statements
    ]


@pytest.mark.parametrize(("question", "label"), [("How many?", "Answer:"), ("多少？", "答案：")])
def test_the_task_to_quote_leaves_the_shared_prefix_as_it_is(question: str, label: str) -> None:
    plain, quoted = instructions_for(question), instructions_for(question, mode="quoted")
    assert label in quoted.task
    assert plain.refusal in quoted.task
    assert (
        (quoted.system, quoted.passages_label)
        == (plain.system, plain.passages_label)
        == (SYSTEM, "Passages:\n\n")
    )
    assert quoted.question_label == plain.question_label
