from __future__ import annotations

from typing import Any

import pytest

from evaluation.questions import Evidence, GoldQuestion
from evaluation.scoring import CitedSpan, GivenAnswer, Score, Span, score_answer

TEXT = "云长造青龙偃月刀，又名“冷\n艳锯”，重八十二斤。张飞造丈八点钢矛。"


def span(
    text: str, start: int = 0, *, name: str = "三国.txt", page: int = 1, document_id: str = "doc_1"
) -> Span:
    return Span(document_id, name, start, start + len(text), page, page, text)


def cite(text: str, source: str = TEXT, **fields: Any) -> CitedSpan:
    return CitedSpan(span(text, source.index(text), **fields), text)


def gold(**fields: Any) -> dict[str, Any]:
    return GoldQuestion(**({"question": "重多少斤？"} | fields)).as_json(position=0)


def score(
    question: dict[str, Any],
    text: str = "",
    *,
    outcome: str = "answered",
    passages: tuple[Span, ...] = (),
    citations: tuple[CitedSpan, ...] = (),
) -> Score:
    return score_answer(question, GivenAnswer(outcome, text, passages, citations))


def test_evidence_is_found_verbatim_in_passages_at_their_rank() -> None:
    question = gold(evidence=["又名“冷艳锯”，重八十二斤", "张飞造丈八点钢矛", "不在其中"])
    metrics = score(question, passages=(span("无关。"), span(TEXT))).metrics
    assert metrics["recall_at_1"] == 0.0
    assert metrics["recall_at_3"] == metrics["recall"] == pytest.approx(2 / 3)
    assert metrics["mrr"] == 0.5
    assert 0 < metrics["ndcg_at_10"] < 1


def test_evidence_in_the_wrong_document_is_not_found() -> None:
    evidence = [Evidence(text="重八十二斤", document="别的.txt")]
    assert score(gold(evidence=evidence), passages=(span(TEXT),)).metrics["recall"] == 0.0
    named = [Evidence(text="重八十二斤", document="三国")]  # a file's name without its ending
    assert score(gold(evidence=named), passages=(span(TEXT),)).metrics["recall"] == 1.0


@pytest.mark.parametrize(("page", "recall"), [(2, 1.0), (3, 0.0), (None, 1.0)])
def test_evidence_without_words_is_found_by_document_and_page(page: int | None, recall: float) -> None:
    evidence = [Evidence(document="REPORT.pdf", page=page)]
    passage = span("text", name="report.pdf", page=2)
    assert score(gold(evidence=evidence), passages=(passage,)).metrics["recall"] == recall


def test_answers_are_scored_without_their_citation_marks() -> None:
    metrics = score(gold(answers=["八十二斤"]), "八十二斤 [1]").metrics
    assert (metrics["em"], metrics["f1"], metrics["contains_answer"]) == (1.0, 1.0, 1.0)
    assert metrics["refusal_correct"] == 1.0
    assert "recall" not in metrics
    assert "citation_precision" not in metrics


def test_refusing_what_can_be_answered_scores_nothing() -> None:
    metrics = score(gold(answers=["文档"]), "文档中没有这个问题的答案。", outcome="refused").metrics
    assert (metrics["em"], metrics["f1"], metrics["contains_answer"]) == (0.0, 0.0, 0.0)
    assert (metrics["refused"], metrics["refusal_correct"]) == (1.0, 0.0)


def test_of_an_unanswerable_question_only_the_refusal_counts() -> None:
    question = gold(answers=["没有"], evidence=["x"], answerable=False)
    assert score(question, outcome="refused").metrics == {"refused": 1.0, "refusal_correct": 1.0}
    answered = score(question, "八十二斤 [1]", citations=(cite("重八十二斤"),))
    assert answered.metrics == {"refused": 0.0, "refusal_correct": 0.0, "citations_verbatim": 1.0}
    assert answered.supports == (None,)


def test_a_citation_supports_when_it_overlaps_evidence_or_holds_an_answer() -> None:
    question = gold(evidence=["重八十二斤"], answers=["丈八点钢矛"])
    citations = (
        cite("锯”，重八十"),  # overlaps the evidence
        cite("又名“冷\n艳锯”，重八十二斤。"),  # contains it
        cite("张飞造丈八点钢矛。"),  # holds a gold answer
        cite("云长造青龙偃月刀"),  # neither
    )
    found = score(question, "…", passages=(span(TEXT),), citations=citations)
    assert found.supports == (True, True, True, False)
    assert found.metrics["citation_precision"] == 0.75
    assert found.metrics["citations_verbatim"] == 1.0


def test_a_part_of_the_evidence_cited_from_elsewhere_supports() -> None:
    question = gold(evidence=["又名冷艳锯，重八十二斤"])
    assert score(question, citations=(cite("重八十二斤"),)).supports == (True,)
    other = gold(evidence=[Evidence(text="又名冷艳锯，重八十二斤", document="别的.txt")])
    assert score(other, citations=(cite("重八十二斤"),)).supports == (False,)


def test_a_quote_that_its_document_no_longer_has_is_not_verbatim() -> None:
    gone = CitedSpan(span(""), "重八十二斤")
    changed = CitedSpan(span("重八十三斤"), "重八十二斤")
    metrics = score(gold(answers=["八十二斤"]), citations=(gone, changed, cite("重八十二斤"))).metrics
    assert metrics["citations_verbatim"] == pytest.approx(1 / 3)


def test_without_any_gold_only_the_refusal_is_scored() -> None:
    found = score(gold(), "八十二斤 [1]", passages=(span(TEXT),), citations=(cite("重八十二斤"),))
    assert set(found.metrics) == {"refused", "refusal_correct", "citations_verbatim"}
    assert found.supports == (None,)
