"""Whole document or passages."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from core.errors import InvalidInput, TooLong
from core.ids import DocumentId
from generation.context import ContextDecision, WholeCandidate, break_even_questions, decide_context

REPORT = WholeCandidate(DocumentId("doc_1"), "报告.pdf", num_tokens=4000, num_recent=0)


def decide(choice: str, candidate: WholeCandidate | None, **changes: Any) -> ContextDecision:
    values = {
        "passage_tokens": 2000,
        "room_tokens": 7000,
        "max_whole_tokens": 6000,
        "cached_token_share": 0.25,
    }
    return decide_context(choice, candidate, **(values | changes))


def test_at_the_break_even_both_ways_cost_the_same() -> None:
    questions = break_even_questions(4000, 2000, 0.25)
    assert questions == 3
    assert 4000 + (questions - 1) * 0.25 * 4000 <= questions * 2000
    assert 4000 + (questions - 2) * 0.25 * 4000 > (questions - 1) * 2000


def test_a_document_whose_cached_tokens_cost_as_much_as_passages_never_pays() -> None:
    assert break_even_questions(8000, 2000, 0.25) == math.inf
    assert break_even_questions(8000, 2000, 0.0) == 4


def test_a_document_no_longer_than_its_passages_pays_at_once() -> None:
    assert break_even_questions(1500, 2000, 0.25) == 1


def test_a_document_goes_in_whole_once_enough_questions_are_expected() -> None:
    assert decide("auto", replace(REPORT, num_recent=1)).whole is None
    decision = decide("auto", replace(REPORT, num_recent=2))
    assert decision.as_json()["document_id"] == "doc_1"
    assert decision.reason == "3 questions expected, 3 pay for the whole"


def test_what_does_not_fit_is_answered_from_passages() -> None:
    long = replace(REPORT, num_tokens=6500, num_recent=100)
    assert decide("auto", long).reason == "the document has 6500 tokens, 6000 fit"
    assert decide("auto", long, room_tokens=3000).reason == "the document has 6500 tokens, 3000 fit"


def test_a_static_document_goes_in_whole_at_once_where_the_window_has_room() -> None:
    static = replace(REPORT, num_tokens=6500, is_static=True)
    assert decide("auto", static).whole == static
    assert decide("passages", static).whole is None
    assert decide("auto", static, room_tokens=6000).reason == "the document has 6500 tokens, 6000 fit"


def test_several_documents_are_answered_from_passages() -> None:
    assert decide("auto", None).whole is None


def test_the_caller_has_the_last_word() -> None:
    assert decide("passages", replace(REPORT, num_recent=100)).whole is None
    assert decide("whole", REPORT).whole == REPORT
    assert decide("whole", replace(REPORT, num_tokens=6500)).whole is not None


def test_whole_without_one_document_says_how_to_name_it() -> None:
    with pytest.raises(InvalidInput, match="several documents") as caught:
        decide("whole", None)
    assert "filter.document_ids" in (caught.value.remedy or "")


def test_whole_beyond_the_window_names_the_document_and_both_numbers() -> None:
    with pytest.raises(TooLong, match=r"报告\.pdf has 9000 tokens; the window has room for 7000"):
        decide("whole", replace(REPORT, num_tokens=9000))
