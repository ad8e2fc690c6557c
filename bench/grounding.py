"""Does it answer where the documents do, refuse where they don't, and cite what bears it out?

RGB's web pages lie in one collection of a running service. Each question is asked three times, over
the pages that answer it, over some of those among others, and over others alone.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.grounding_sets import CONDITIONS, Condition, GroundingQuestion, load_questions
from bench.metrics import contains_answer
from bench.report import BenchOptions, BenchResult, BenchTable
from bench.service import running_service
from client import LongleafClient
from core.ids import content_hash

NEIGHBOUR_CHARACTERS = 120
"""How far from a quote the gold answer may stand: about a sentence, in either language."""

STRICT_SUPPORT = 0.72
"""The `min_support` with the best F1 of refusals on the half of RGB that is not asked here.

The default refuses far less: it is fitted to refuse few questions that have an answer.
"""

_UPLOAD_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class CitationVerdict:
    """Of one citation: `holds` the gold answer itself, `supports` it: it stands within a sentence of it.

    `answers_page` is whether its page is one that answers at all.
    """

    holds: bool
    supports: bool
    answers_page: bool
    is_verbatim: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one question under one condition."""

    question: GroundingQuestion
    condition: Condition
    is_refused: bool
    is_correct: bool
    citations: tuple[CitationVerdict, ...]
    support: float = 0.0  # what the passages were found to be worth, before any threshold

    @property
    def should_refuse(self) -> bool:
        return self.condition == "unanswerable"


@dataclass(frozen=True, slots=True)
class RefusalFigures:
    """Of refusals: how many were right, how many that were due came; and both in one.

    `false_rate` is the share of answerable questions refused. `always` is the F1 of a system that refuses
    everything: what a figure has to be above to mean anything.
    """

    precision: float
    recall: float
    f1: float
    false_rate: float
    always: float


def run(options: BenchOptions) -> BenchResult:
    """Ask the held-out half of RGB.

    `extra` takes `engine` (URL of an engine: written answers are measured too) and `half` (`tuning` asks
    the other half).
    """
    questions = load_questions(
        options.data_dir, held_out=options.extra.get("half") != "tuning", quick=options.quick
    )
    engine = options.extra.get("engine", "")
    modes = ("extractive", "abstractive") if engine else ("extractive",)
    with running_service(options, "grounding", with_engine=False, engine_url=engine) as (_, client):
        collection_id = client.get_or_create_collection("grounding")["id"]
        pages = upload_pages(client, collection_id, questions)
        verdicts = {mode: _ask_all(client, collection_id, questions, pages, mode) for mode in modes}
    return BenchResult(
        name="grounding",
        config={
            "num_questions": len(questions),
            "conditions": list(CONDITIONS),
            "modes": list(modes),
            "quick": options.quick,
        },
        figures=figures_of(verdicts["extractive"]),
        details={mode: _details(found) for mode, found in verdicts.items()},
        tables=[table for mode, found in verdicts.items() for table in _tables(mode, found)],
    )


def upload_pages(
    client: LongleafClient, collection_id: str, questions: Sequence[GroundingQuestion]
) -> dict[str, str]:
    """Every page as a document of its own; document ids by page text."""
    texts = list(dict.fromkeys(page for q in questions for page in (*q.positive, *q.negative)))
    names = {_file_name(text): text for text in texts}
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="longleaf-bench-") as folder:
        paths = [Path(folder) / name for name in names]
        for path in paths:
            path.write_text(names[path.name], encoding="utf-8")
        for batch in client.upload(collection_id, paths):
            job = client.wait_for_job(batch.job["id"], timeout=_UPLOAD_SECONDS)
            for file in job["files"]:
                if file["document_id"] is not None:
                    found[names[file["name"]]] = file["document_id"]
    return found


def _ask_all(
    client: LongleafClient,
    collection_id: str,
    questions: Sequence[GroundingQuestion],
    pages: Mapping[str, str],
    mode: Any,
) -> list[Verdict]:
    asked = [(question, condition) for question in questions for condition in CONDITIONS]
    random.Random(0).shuffle(asked)
    verdicts = []
    for question, condition in asked:
        documents = [pages[page] for page in question.pages(condition) if page in pages]
        answer = client.ask(collection_id, question.text, mode=mode, filter={"document_ids": documents})
        verdicts.append(judge(question, condition, dict(answer), read=client.read_document_text, pages=pages))
    return verdicts


def judge(
    question: GroundingQuestion,
    condition: Condition,
    answer: Mapping[str, Any],
    *,
    read: Callable[..., str],
    pages: Mapping[str, str],
) -> Verdict:
    """Hold an answer against what is known. `read(document_id, start=…, end=…)` gives the source."""
    positive = {pages.get(page) for page in question.positive}
    refused = answer["outcome"] == "refused"
    citations = [] if refused else answer["citations"]
    return Verdict(
        question=question,
        condition=condition,
        is_refused=refused,
        is_correct=not refused and contains_answer(answer["text"], question.answers),
        citations=tuple(_judge_citation(question, citation, read, positive) for citation in citations),
        support=float((answer.get("steps") or {}).get("support", {}).get("value", 0.0)),
    )


def _judge_citation(
    question: GroundingQuestion,
    citation: Mapping[str, Any],
    read: Callable[..., str],
    positive: set[str | None],
) -> CitationVerdict:
    document_id, start, end = citation["document_id"], citation["start"], citation["end"]
    around = read(document_id, start=max(0, start - NEIGHBOUR_CHARACTERS), end=end + NEIGHBOUR_CHARACTERS)
    on_page = document_id in positive
    return CitationVerdict(
        holds=contains_answer(citation["quote"], question.answers),
        supports=on_page and contains_answer(around, question.answers),
        answers_page=on_page,
        is_verbatim=read(document_id, start=start, end=end) == citation["quote"],
    )


def figures_of(verdicts: Sequence[Verdict]) -> dict[str, float]:
    """The benchmark's keys.

    Refusals are counted on the files that are made for it, citations on all questions that have an answer.
    """
    testing = [v for v in verdicts if v.question.tests_refusal]
    refusal = refusal_figures(testing)
    citations = [c for verdict in verdicts for c in verdict.citations]
    due = [c for verdict in verdicts if not verdict.should_refuse for c in verdict.citations]
    return {
        "refusal_f1": refusal.f1,
        "refusal_precision": refusal.precision,
        "refusal_recall": refusal.recall,
        "refusal_f1_strict": refusal_figures(list(map(strictly, testing))).f1,
        "citation_precision": _share([c.holds or c.supports for c in due]),
        "answers_supported": _share(_supported(verdicts)),
        "citations_verbatim": _share([c.is_verbatim for c in citations]),
    }


def _supported(verdicts: Sequence[Verdict]) -> list[bool]:
    """Of each answer to an answerable question, whether any of its citations bears it out: what citing less
    costs, which precision alone does not tell.
    """
    return [
        any(c.holds or c.supports for c in verdict.citations)
        for verdict in verdicts
        if not verdict.should_refuse and not verdict.is_refused
    ]


def strictly(verdict: Verdict) -> Verdict:
    """What would have come of the question at `STRICT_SUPPORT`."""
    return replace(verdict, is_refused=verdict.is_refused or verdict.support < STRICT_SUPPORT)


def refusal_figures(verdicts: Sequence[Verdict]) -> RefusalFigures:
    """Precision, recall and F1 of refusing, with the refused as the positives."""
    right = sum(v.is_refused and v.should_refuse for v in verdicts)
    refused, due = sum(v.is_refused for v in verdicts), sum(v.should_refuse for v in verdicts)
    answerable = [v for v in verdicts if not v.should_refuse]
    return RefusalFigures(
        precision=right / refused if refused else 0.0,
        recall=right / due if due else 0.0,
        f1=2 * right / (refused + due) if refused + due else 0.0,
        false_rate=_share([v.is_refused for v in answerable]),
        always=2 * due / (len(verdicts) + due) if due else 0.0,
    )


def _details(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    groups = _groups(verdicts)
    return {
        "refusal": {name: _refusal_json(found) for name, found in groups.items()},
        "refusal_strict": {name: _refusal_json(list(map(strictly, found))) for name, found in groups.items()},
        "citations": {name: _citation_shares(found) for name, found in groups.items()},
        "answers": [
            {
                "id": v.question.id,
                "condition": v.condition,
                "support": v.support,
                "refused": v.is_refused,
                "correct": v.is_correct,
            }
            for v in verdicts
        ],
    }


def _refusal_json(verdicts: Sequence[Verdict]) -> dict[str, float]:
    figures = refusal_figures(verdicts)
    return {
        "precision": figures.precision,
        "recall": figures.recall,
        "f1": figures.f1,
        "false_rate": figures.false_rate,
        "f1_always_refusing": figures.always,
    }


def _citation_shares(verdicts: Sequence[Verdict]) -> dict[str, float]:
    due = [c for verdict in verdicts if not verdict.should_refuse for c in verdict.citations]
    answered = [v for v in verdicts if not v.should_refuse and not v.is_refused]
    return {
        "num_citations": len(due),
        "holds_the_answer": _share([c.holds for c in due]),
        "holds_or_supports": _share([c.holds or c.supports for c in due]),
        "of_an_answering_page": _share([c.answers_page for c in due]),
        "first_holds_or_supports": _share(
            [v.citations[0].holds or v.citations[0].supports for v in answered if v.citations]
        ),
        "answers_supported": _share(_supported(verdicts)),
        "answers_correct": _share([v.is_correct for v in answered]),
    }


def _groups(verdicts: Sequence[Verdict]) -> dict[str, list[Verdict]]:
    """All, by language and by set."""
    groups: dict[str, list[Verdict]] = {"all": list(verdicts)}
    for verdict in verdicts:
        groups.setdefault(verdict.question.language, []).append(verdict)
    for verdict in verdicts:
        groups.setdefault(verdict.question.set_name, []).append(verdict)
    return groups


def _tables(mode: str, verdicts: Sequence[Verdict]) -> list[BenchTable]:
    groups = _groups(verdicts)
    columns = ("questions", *CONDITIONS, "precision", "recall", "F1", "F1 of refusing all")
    return [
        BenchTable(f"{mode}: share refused", columns, [_refusal_row(name, v) for name, v in groups.items()]),
        BenchTable(
            f"{mode}: share refused if min_support were {STRICT_SUPPORT}, fitted to the other half",
            columns,
            [_refusal_row(name, list(map(strictly, found))) for name, found in groups.items()],
        ),
        BenchTable(
            f"{mode}: citations where there is an answer",
            (
                "questions",
                "citations",
                "hold it",
                "or support it",
                "answering page",
                "first",
                "any",
                "answer right",
            ),
            [
                (name, *(f"{value:.4g}" for value in _citation_shares(found).values()))
                for name, found in groups.items()
            ],
        ),
    ]


def _refusal_row(name: str, verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    figures = refusal_figures(verdicts)
    shares = [
        _share([v.is_refused for v in verdicts if v.condition == condition]) for condition in CONDITIONS
    ]
    values = (*shares, figures.precision, figures.recall, figures.f1, figures.always)
    return (name, *(f"{value:.3f}" for value in values))


def _share(values: Sequence[bool]) -> float:
    return sum(values) / len(values) if values else 0.0


def _file_name(text: str) -> str:
    return f"{content_hash(text)[:16]}.txt"
