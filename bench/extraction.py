"""How much of the evidence each way of keeping sentences keeps, at how many of the tokens.

Passages are what the product finds: hybrid search over the set's documents, cut by the product's
chunker, six passages of 2,400 tokens at most, the gold evidence among them and all else beside it.
Only questions whose evidence is wholly in them count. Tokens are the embedder's, whose vocabulary
is that of a generator at home in both languages. A set counts as much as another, however many
questions it has; sets asked in another language than their documents are shown and not counted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.extraction_baselines import BASELINES, keep_plainly
from bench.extraction_collection import MAX_PASSAGE_TOKENS, NUM_PASSAGES, Case, find_cases
from bench.extraction_engine import find_engine
from bench.extraction_sets import load_sets
from bench.report import BenchOptions, BenchResult, BenchTable
from bench.search_collection import MemoizingEmbedder, SearchBed
from inference.encoders import load_embedder
from retrieval.extraction import EmbeddingExtractor, PassageExtractor, RuleExtractor
from retrieval.sentence_vectors import SentenceVectors

SHARES = (0.1, 0.2, 0.3, 0.4, 0.6)
"""Shares of the passages' tokens that are kept."""

_JUDGED_SHARE = 0.4
_JUDGED_METHOD = "embedding"
_EMBEDDER = "multilingual-e5-small"
_NUM_QUESTIONS, _NUM_QUICK_QUESTIONS = 40, 8
_NUM_ENGINE_QUESTIONS = 3  # a set: a small model on CPU takes seconds a question
_FEW = (1, 2, 3)  # sentences of an extractive answer


@dataclass(slots=True)
class _Tally:
    """Of one method on one set, a value a question: evidence and tokens kept by share of tokens
    allowed, evidence in so many sentences, and seconds."""

    evidence: dict[float, list[float]] = field(default_factory=lambda: {share: [] for share in SHARES})
    tokens: dict[float, list[float]] = field(default_factory=lambda: {share: [] for share in SHARES})
    few: dict[int, list[float]] = field(default_factory=lambda: {number: [] for number in _FEW})
    seconds: list[float] = field(default_factory=list)


_Results = dict[str, dict[str, _Tally]]  # by set, by method


def run(options: BenchOptions) -> BenchResult:
    """Measure our methods and plain ones on the same passages.

    `extra` takes `engine`, the URL of an engine that serves the packaged generator: then the small
    model chooses too, for a few questions of each set.
    """
    embedder = MemoizingEmbedder(load_embedder(_EMBEDDER, options.model_dir))
    methods: list[PassageExtractor] = [
        EmbeddingExtractor(embedder, embedder.tokenizer),
        RuleExtractor(embedder.tokenizer),
    ]
    engine = find_engine(options, embedder.tokenizer)
    results: _Results = {}
    crossing: set[str] = set()
    num_asked: dict[str, int] = {}
    num_questions = _NUM_QUICK_QUESTIONS if options.quick else _NUM_QUESTIONS
    with tempfile.TemporaryDirectory(prefix="longleaf-bench-") as folder:
        bed = SearchBed(Path(folder), embedder)
        for evidence_set in load_sets(options.data_dir, num_questions=num_questions):
            cases = find_cases(bed, evidence_set, embedder.tokenizer)
            num_asked[evidence_set.name] = len(evidence_set.questions)
            if evidence_set.is_cross:
                crossing.add(evidence_set.name)
            if cases:
                results[evidence_set.name] = _measure(cases, methods, engine, embedder)
        bed.close()
    return BenchResult(
        name="extraction",
        config={
            "embedder": embedder.name,
            "embedder_revision": embedder.revision,
            "quick": options.quick,
            "questions_per_set": num_questions,
            "num_passages": NUM_PASSAGES,
            "max_passage_tokens": MAX_PASSAGE_TOKENS,
            "method": _JUDGED_METHOD,
            "share": _JUDGED_SHARE,
            "model_method": "measured" if engine else "left out: no engine was given",
        },
        figures={
            "answers_kept": _over_sets(results, crossing, _JUDGED_METHOD, "evidence"),
            "tokens_kept": _over_sets(results, crossing, _JUDGED_METHOD, "tokens"),
        },
        details=_details(results, num_asked),
        tables=_tables(results, crossing),
    )


def _measure(
    cases: Sequence[Case],
    methods: Sequence[PassageExtractor],
    engine: PassageExtractor | None,
    embedder: MemoizingEmbedder,
) -> dict[str, _Tally]:
    tallies = {name: _Tally() for name in (*(m.name for m in methods), *BASELINES)}
    for case in cases:
        for method in methods:
            _extract(case, method, embedder, tallies[method.name])
        for name, baseline in BASELINES.items():
            for share in SHARES:
                max_tokens = _allowed(case, embedder, share)
                texts = keep_plainly(baseline, case, embedder, max_tokens=max_tokens)
                _note(tallies[name], case, embedder, share, texts)
    if engine:
        tallies[engine.name] = _Tally()
        for case in cases[:_NUM_ENGINE_QUESTIONS]:
            _extract(case, engine, embedder, tallies[engine.name])
    return tallies


def _extract(case: Case, method: PassageExtractor, embedder: MemoizingEmbedder, tally: _Tally) -> None:
    for share in SHARES:
        extraction = method.extract(
            case.question.text,
            case.passages,
            max_tokens=_allowed(case, embedder, share),
            vectors=SentenceVectors(embedder),
            query_vector=case.query_vector,
        )
        _note(tally, case, embedder, share, [span.text for span in extraction.spans])
        tally.seconds.append(extraction.seconds)
    for number in _FEW:
        extraction = method.extract(
            case.question.text,
            case.passages,
            num_sentences=number,
            vectors=SentenceVectors(embedder),
            query_vector=case.query_vector,
        )
        tally.few[number].append(case.kept_evidence([s.text for s in extraction.sentences]))


def _allowed(case: Case, embedder: MemoizingEmbedder, share: float) -> int:
    return max(1, int(share * _tokens(embedder, [passage.text for passage in case.passages])))


def _tokens(embedder: MemoizingEmbedder, texts: Sequence[str]) -> int:
    return sum(embedder.tokenizer.count(text) for text in texts)


def _note(tally: _Tally, case: Case, embedder: MemoizingEmbedder, share: float, texts: list[str]) -> None:
    total = _tokens(embedder, [passage.text for passage in case.passages])
    tally.evidence[share].append(case.kept_evidence(texts))
    tally.tokens[share].append(_tokens(embedder, texts) / total)


# ---- the report --------------------------------------------------------------------------------


def _over_sets(results: _Results, crossing: set[str], method: str, what: str) -> float:
    """Mean over the sets in one language of their means, at the share that is judged."""
    means = [
        _mean(getattr(tallies[method], what)[_JUDGED_SHARE])
        for name, tallies in results.items()
        if name not in crossing
    ]
    return _mean(means)


def _details(results: _Results, num_asked: Mapping[str, int]) -> dict[str, Any]:
    return {
        "sets": {
            name: {
                "num_questions": num_asked[name],
                "num_with_evidence_in_passages": len(tallies[_JUDGED_METHOD].evidence[_JUDGED_SHARE]),
                "methods": {method: _curves(tally) for method, tally in tallies.items()},
            }
            for name, tallies in results.items()
        }
    }


def _curves(tally: _Tally) -> dict[str, Any]:
    return {
        "kept_at": {str(share): _mean(values) for share, values in tally.evidence.items()},
        "tokens_at": {str(share): _mean(values) for share, values in tally.tokens.items()},
        "in_sentences": {str(number): _mean(values) for number, values in tally.few.items() if values},
        "mean_seconds": _mean(tally.seconds),
    }


def _tables(results: _Results, crossing: set[str]) -> list[BenchTable]:
    methods = list(dict.fromkeys(method for tallies in results.values() for method in tallies))
    return [
        BenchTable(
            "evidence kept at so many of the tokens, mean over sets in one language",
            ("method", *(f"{share:.0%}" for share in SHARES)),
            [(method, *_mean_curve(results, crossing, method)) for method in methods],
        ),
        BenchTable(
            f"evidence kept at {_JUDGED_SHARE:.0%} of the tokens",
            ("set", "questions", *methods),
            list(_set_rows(results, methods)),
        ),
        BenchTable(
            "evidence in so many sentences",
            ("set", *(f"{method} {number}" for method in _own(methods) for number in _FEW)),
            [
                (name, *(_cell(tallies[m].few[n]) for m in _own(methods) for n in _FEW))
                for name, tallies in results.items()
            ],
        ),
    ]


def _mean_curve(results: _Results, crossing: set[str], method: str) -> Iterator[str]:
    counted = [t[method] for name, t in results.items() if name not in crossing and method in t]
    for share in SHARES:
        yield _cell([_mean(tally.evidence[share]) for tally in counted])


def _set_rows(results: _Results, methods: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for name, tallies in results.items():
        num = len(tallies[_JUDGED_METHOD].evidence[_JUDGED_SHARE])
        yield name, str(num), *(_cell(tallies[m].evidence[_JUDGED_SHARE]) for m in methods)


def _own(methods: Sequence[str]) -> list[str]:
    return [method for method in methods if method not in BASELINES]


def _cell(values: Sequence[float]) -> str:
    return f"{_mean(values):.3f}" if values else "–"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
