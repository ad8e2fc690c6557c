"""A whole document because the caller asked for it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from bench.context import break_even_questions
from core.errors import InvalidInput, TooLong
from core.ids import DocumentId
from generation.context import WholeCandidate, require_whole

REPORT = WholeCandidate(DocumentId("doc_1"), "报告.pdf", num_tokens=4000)


def test_the_document_asked_for_is_taken_whole_if_it_fits() -> None:
    assert require_whole(REPORT, room_tokens=7000) == REPORT


def test_whole_without_one_document_says_how_to_name_it() -> None:
    with pytest.raises(InvalidInput, match="several documents") as caught:
        require_whole(None, room_tokens=7000)
    assert "filter.document_ids" in (caught.value.remedy or "")


def test_whole_beyond_the_window_names_the_document_and_both_numbers() -> None:
    with pytest.raises(TooLong, match=r"报告\.pdf has 9000 tokens; the window has room for 7000"):
        require_whole(replace(REPORT, num_tokens=9000), room_tokens=7000)


def test_at_the_break_even_both_ways_cost_the_same() -> None:
    questions = break_even_questions(4000, 2000, 0.25)
    assert questions == 3
    assert 4000 + (questions - 1) * 0.25 * 4000 <= questions * 2000
    assert 4000 + (questions - 2) * 0.25 * 4000 > (questions - 1) * 2000
    assert break_even_questions(8000, 2000, 0.25) == math.inf
    assert break_even_questions(1500, 2000, 0.25) == 1
