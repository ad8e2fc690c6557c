from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.grounding import (
    STRICT_SUPPORT,
    CitationVerdict,
    Verdict,
    figures_of,
    judge,
    refusal_figures,
    strictly,
)
from bench.grounding_sets import Condition, GroundingQuestion, load_questions, read_rows
from core.errors import NotFound

SOURCE = "The club was founded in 1912. It moved to Leeds ten years later. Nobody knows why it left."
PAGES = {"right page": "doc_right", "wrong page": "doc_wrong"}


def question(answers: tuple[str, ...] = ("Leeds",), language: str = "en") -> GroundingQuestion:
    return GroundingQuestion("q-1", "set", language, "Where to?", answers, ("right page",), ("wrong page",))


def verdict(condition: Condition, *, refused: bool, citations: tuple[CitationVerdict, ...] = ()) -> Verdict:
    return Verdict(question(), condition, refused, False, citations)


def read(document_id: str, *, start: int, end: int) -> str:
    return SOURCE[start:end]


def answer_of(quote: str, *, document_id: str = "doc_right") -> dict[str, object]:
    start = SOURCE.find(quote)
    citation = {"document_id": document_id, "start": start, "end": start + len(quote), "quote": quote}
    return {"outcome": "answered", "text": f"{quote} [1]", "citations": [citation]}


def test_a_quote_with_the_answer_holds_it_and_its_neighbour_only_supports_it() -> None:
    pages = PAGES
    holds = judge(
        question(), "noisy", answer_of("It moved to Leeds ten years later."), read=read, pages=pages
    )
    beside = judge(question(), "noisy", answer_of("The club was founded in 1912."), read=read, pages=pages)
    assert (holds.citations[0].holds, holds.is_correct) == (True, True)
    assert (beside.citations[0].holds, beside.citations[0].supports, beside.is_correct) == (
        False,
        True,
        False,
    )


def test_a_neighbour_of_the_answer_on_a_page_that_does_not_answer_supports_nothing() -> None:
    answer = answer_of("The club was founded in 1912.", document_id="doc_wrong")
    found = judge(question(), "unanswerable", answer, read=read, pages=PAGES)
    assert not found.citations[0].supports


def test_a_quote_that_differs_from_its_source_is_not_verbatim() -> None:
    answer = answer_of("It moved to Leeds ten years later.")
    answer["citations"][0]["quote"] = "It moved to Leeds."  # type: ignore[index]
    found = judge(question(), "answerable", answer, read=read, pages=PAGES)
    assert not found.citations[0].is_verbatim
    assert figures_of([found])["citations_verbatim"] == 0.0


def test_a_refusal_has_no_citation_and_no_right_answer() -> None:
    answer = {"outcome": "refused", "text": "Leeds is not in the documents.", "citations": []}
    found = judge(question(), "answerable", answer, read=read, pages=PAGES)
    assert (found.is_refused, found.is_correct, found.citations) == (True, False, ())


def test_a_strict_threshold_refuses_what_was_answered_on_little_support() -> None:
    steps = {"support": {"value": STRICT_SUPPORT - 0.01, "threshold": 0.2}}
    answer = answer_of("It moved to Leeds ten years later.") | {"steps": steps}
    found = judge(question(), "answerable", answer, read=read, pages=PAGES)
    assert (found.is_refused, strictly(found).is_refused) == (False, True)


def test_refusing_everything_scores_what_always_says() -> None:
    conditions: tuple[Condition, ...] = ("answerable", "noisy", "unanswerable")
    everything = refusal_figures([verdict(condition, refused=True) for condition in conditions])
    assert everything.f1 == pytest.approx(everything.always) == pytest.approx(0.5)
    assert (everything.precision, everything.recall, everything.false_rate) == (1 / 3, 1.0, 1.0)


def test_refusing_nothing_is_neither_precise_nor_complete() -> None:
    nothing = refusal_figures([verdict("noisy", refused=False), verdict("unanswerable", refused=False)])
    assert (nothing.precision, nothing.recall, nothing.f1, nothing.false_rate) == (0.0, 0.0, 0.0, 0.0)


def test_citations_of_unanswerable_questions_count_for_verbatim_but_not_for_precision() -> None:
    wrong = CitationVerdict(holds=False, supports=False, answers_page=False, is_verbatim=False)
    right = CitationVerdict(holds=True, supports=True, answers_page=True, is_verbatim=True)
    figures = figures_of(
        [
            verdict("noisy", refused=False, citations=(right,)),
            verdict("unanswerable", refused=False, citations=(wrong,)),
        ]
    )
    assert (figures["citation_precision"], figures["citations_verbatim"]) == (1.0, 0.5)


def test_an_answer_is_supported_by_any_of_its_citations_and_refusals_are_no_answers() -> None:
    wrong = CitationVerdict(holds=False, supports=False, answers_page=False, is_verbatim=True)
    right = CitationVerdict(holds=False, supports=True, answers_page=True, is_verbatim=True)
    figures = figures_of(
        [
            verdict("noisy", refused=False, citations=(wrong, right)),
            verdict("answerable", refused=False, citations=(wrong,)),
            verdict("answerable", refused=True),
            verdict("unanswerable", refused=False, citations=(right,)),
        ]
    )
    assert (figures["answers_supported"], figures["citation_precision"]) == (1 / 2, 1 / 3)


def rgb_row(**changes: object) -> dict[str, object]:
    row: dict[str, object] = {
        "id": 0,
        "query": "首都在哪里？",
        "answer": ["北京"],
        "positive": ["首都是北京。", "北京是首都。", "第三页：北京。"],
        "negative": ["上海很大。", "广州很热。", "深圳很新。", "重庆有山，也有北京路。"],
    }
    return row | changes


def write_rgb(folder: Path, rows: list[dict[str, object]]) -> Path:
    (folder / "qa-rgb").mkdir()
    for name in ("zh_refine.100", "zh_int.50", "zh_fact", "en_fact"):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / "qa-rgb" / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return folder


def test_pages_that_hold_the_answer_do_not_count_as_not_answering(tmp_path: Path) -> None:
    found = load_questions(write_rgb(tmp_path, [rgb_row()]), held_out=False, quick=False)
    assert len(found) == 4
    assert found[0].negative == ("上海很大。", "广州很热。", "深圳很新。")
    assert found[0].pages("noisy") == (
        "首都是北京。",
        "北京是首都。",
        "上海很大。",
        "广州很热。",
        "深圳很新。",
    )
    assert found[0].pages("unanswerable") == found[0].negative


def test_each_fact_of_a_question_for_two_has_a_page(tmp_path: Path) -> None:
    row = rgb_row(
        query="首都和最大的城市？",
        answer=[["北京", "北平"], "沪"],
        positive=[["京一：北京", "京二"], ["沪一：沪"]],
    )
    found = load_questions(write_rgb(tmp_path, [row]), held_out=False, quick=False)[0]
    assert found.positive == ("京一：北京", "沪一：沪")
    assert found.answers == ("北京", "北平", "沪")


def test_the_halves_share_no_question(tmp_path: Path) -> None:
    write_rgb(tmp_path, [rgb_row(id=i) for i in range(5)])
    tuning = load_questions(tmp_path, held_out=False, quick=False)
    held_out = load_questions(tmp_path, held_out=True, quick=False)
    assert (len(tuning), len(held_out)) == (12, 8)
    assert not {q.id for q in tuning} & {q.id for q in held_out}


def test_missing_data_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="qa-rgb"):
        load_questions(tmp_path, held_out=True, quick=True)
    with pytest.raises(NotFound, match="absent"):
        read_rows(tmp_path / "absent.jsonl")
