"""One question scored: its gold answer and evidence against what the service answered and cited."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from evaluation.metrics import (
    contains_answer,
    exact_match,
    ndcg_at,
    recall_at,
    reciprocal_rank,
    token_f1,
)
from evaluation.text import fold, fold_with_offsets, strip_citation_marks

Metrics = dict[str, float]

RECALL_CUTS = (1, 3, 5)
NDCG_CUT = 10


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start` to `end` of a document, as they stand in it now, and their pages."""

    document_id: str
    document_name: str
    start: int
    end: int
    first_page: int
    last_page: int
    text: str


@dataclass(frozen=True, slots=True)
class CitedSpan:
    """A citation: its quote as the answer gives it, and what its document has in that place."""

    span: Span
    quote: str

    @property
    def is_verbatim(self) -> bool:
        return bool(self.quote) and self.quote == self.span.text


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """What came back. `passages` are best first; `short_text` is the short answer, if there is one."""

    outcome: str
    text: str
    passages: Sequence[Span]
    citations: Sequence[CitedSpan]
    short_text: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """`metrics` has only what applies; `supports[i]` says whether citation i supports the gold.

    It is None where there is no gold to hold it against.
    """

    metrics: Metrics
    supports: tuple[bool | None, ...]


def score_answer(gold: Mapping[str, Any], answer: GivenAnswer) -> Score:
    """How good an answer is; `gold` is a question as `GoldQuestion.as_json` gives it.

    Each metric is from 0 to 1, more is better. Those of the answer's words are 0 where an answerable
    question was refused, and absent where the question is unanswerable: then only whether it was
    refused counts.
    """
    refused = answer.outcome == "refused"
    metrics: Metrics = {
        "refused": float(refused),
        "refusal_correct": float(refused is not gold["answerable"]),
    }
    if answer.citations:
        verbatim = sum(citation.is_verbatim for citation in answer.citations)
        metrics["citations_verbatim"] = verbatim / len(answer.citations)
    if not gold["answerable"]:
        return Score(metrics, (None,) * len(answer.citations))
    found = [_find(each, answer.passages) for each in gold["evidence"]]
    if found:
        metrics |= _retrieval([places[0].rank if places else None for places in found])
    if gold["answers"]:
        text = "" if refused else strip_citation_marks(answer.text)
        metrics |= _words(gold["answers"], text, short="" if refused else answer.short_text)
    places = [place for each in found for place in each]
    supports = tuple(_supports(citation, gold, places) for citation in answer.citations)
    if known := [each for each in supports if each is not None]:
        metrics["citation_precision"] = sum(known) / len(known)
    return Score(metrics, supports)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where evidence stands: the rank of a passage that holds it, and characters of the document."""

    rank: int
    document_id: str
    start: int
    end: int


def _find(evidence: Mapping[str, Any], passages: Sequence[Span]) -> list[_Place]:
    """Every place in the passages, best passage first."""
    return [
        _Place(rank, passage.document_id, passage.start + start, passage.start + end)
        for rank, passage in enumerate(passages, start=1)
        for start, end in _spans_within(evidence, passage)
    ]


def _spans_within(evidence: Mapping[str, Any], span: Span) -> list[tuple[int, int]]:
    """Where in `span` the evidence's words stand; failing words, all of it if it is on their page."""
    if not _is_in_document(evidence, span):
        return []
    if evidence["text"] is not None:
        return fold_with_offsets(span.text).spans_of(evidence["text"])
    page = evidence["page"]
    on_page = page is None or span.first_page <= page <= span.last_page
    return [(0, span.end - span.start)] if on_page else []


def _is_in_document(evidence: Mapping[str, Any], span: Span) -> bool:
    """By the file's name, which question files often give without its ending."""
    if evidence["document"] is None:
        return True
    wanted, name = _plain_name(evidence["document"]), _plain_name(span.document_name)
    return wanted in (name, PurePath(name).stem)


def _plain_name(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def _retrieval(ranks: Sequence[int | None]) -> Metrics:
    return {
        **{f"recall_at_{k}": recall_at(ranks, k) for k in RECALL_CUTS},
        "recall": recall_at(ranks),
        "mrr": reciprocal_rank(ranks),
        f"ndcg_at_{NDCG_CUT}": ndcg_at(ranks, NDCG_CUT),
    }


def _words(golds: Sequence[str], text: str, *, short: str) -> Metrics:
    """EM and F1 of the short answer, where there is one; containment of all that was said."""
    return {
        "em": exact_match(short or text, golds),
        "f1": token_f1(short or text, golds),
        "contains_answer": contains_answer(text, golds),
    }


def _supports(citation: CitedSpan, gold: Mapping[str, Any], places: Sequence[_Place]) -> bool | None:
    """Whether it overlaps evidence, has words of evidence or all of them, or has a gold answer."""
    if not gold["evidence"] and not gold["answers"]:
        return None
    cited = citation.span
    if any(
        place.document_id == cited.document_id and place.start < cited.end and cited.start < place.end
        for place in places
    ):
        return True
    # Evidence may stand in more places than the passages show.
    if any(_spans_within(each, cited) or _is_part(citation, each) for each in gold["evidence"]):
        return True
    return bool(contains_answer(citation.quote, gold["answers"]))


def _is_part(citation: CitedSpan, evidence: Mapping[str, Any]) -> bool:
    """Whether the evidence's words contain the quote."""
    if evidence["text"] is None or not _is_in_document(evidence, citation.span):
        return False
    quote = fold(citation.quote)
    return bool(quote) and quote in fold(evidence["text"])
