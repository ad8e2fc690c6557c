"""Whole document or passages: what each costs a series of questions about one document.

The rule (`generation/prefix/static_context.py`) puts a document in whole once its questions have
paid for a share of it. Here both ways are asked the same questions, from an empty prefix cache, and the tokens
that the engine really computed say after how many questions the whole document is the cheaper way.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bench.report import BenchOptions, BenchResult, BenchTable
from bench.service import running_service
from client import LongleafClient
from core.errors import NotFound
from core.settings import load_settings
from inference.completions_client import CompletionsClient

Way = Literal["whole", "passages"]
WAYS: tuple[Way, ...] = ("whole", "passages")
_MAX_TOKENS = 8


@dataclass(frozen=True, slots=True)
class _Document:
    name: str
    text: str
    questions: tuple[str, ...]


@dataclass(slots=True)
class _Series:
    """One document asked one way, a value a question."""

    prompt_tokens: list[int] = field(default_factory=list)
    cached_tokens: list[int] = field(default_factory=list)
    ttft_seconds: list[float] = field(default_factory=list)

    def costs(self, cached_share: float) -> np.ndarray[Any, np.dtype[np.float64]]:
        """What the first n questions cost together, in uncached prompt tokens."""
        prompt, cached = np.asarray(self.prompt_tokens), np.asarray(self.cached_tokens)
        return np.cumsum(prompt - cached + cached_share * cached)


def run(options: BenchOptions) -> BenchResult:
    """Tokens computed and time to the first token, both ways, and where they break even."""
    num_documents, num_questions = (1, 4) if options.quick else (2, 8)
    documents = _documents(options.data_dir, num_documents, num_questions)
    share = load_settings().ask.cached_token_share
    series: dict[str, dict[Way, _Series]] = defaultdict(dict)
    with running_service(options, "context", with_engine=True) as (stack, client):
        engine = CompletionsClient(stack.settings.engine_url, model=stack.settings.engine.model)
        collection_id = _upload(client, documents)
        ids = {d["name"]: d["id"] for d in client.list_documents(collection_id)}
        for document in documents:
            for way in WAYS:
                engine.reset_prefix_cache()
                series[document.name][way] = _ask(client, collection_id, ids[document.name], document, way)
        engine.close()
    predicted = [_predicted(series[d.name], share) for d in documents]
    measured = [_measured(series[d.name], share) for d in documents]
    return BenchResult(
        name="context",
        config={"num_documents": num_documents, "num_questions": num_questions, "cached_token_share": share},
        figures={
            "break_even_predicted": float(np.mean(predicted)),
            "break_even_measured": float(np.mean(measured)),
            "computed_whole_vs_passages": _ratio(series, "computed"),
            "ttft_p50_whole_vs_passages": _ratio(series, "ttft"),
        },
        details={name: {way: _as_json(ways[way]) for way in WAYS} for name, ways in series.items()},
        tables=[_table(documents, series, predicted, measured)],
    )


def _documents(data_dir: Path, num_documents: int, num_questions: int) -> list[_Document]:
    """Reports of `qa-dragonball`, English first, each with its first questions."""
    folder = data_dir / "qa-dragonball"
    if not folder.is_dir():
        raise NotFound(f"There is no evaluation set {folder}.", remedy="Pass --data or set LONGLEAF_DATA.")
    questions: dict[int, list[str]] = defaultdict(list)
    for row in _rows(folder / "questions.jsonl"):
        if row["answerable"] and len(row["doc_ids"]) == 1:
            questions[row["doc_ids"][0]].append(row["question"])
    chosen: list[_Document] = []
    for language in ("en", "zh"):
        fitting = [
            row
            for row in _rows(folder / "docs.jsonl")
            if row["lang"] == language and len(questions[row["doc_id"]]) >= num_questions
        ]
        chosen += [
            _Document(f"{row['doc_id']}.txt", row["text"], tuple(questions[row["doc_id"]][:num_questions]))
            for row in fitting[: -(-num_documents // 2)]
        ]
    return chosen[:num_documents]


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _upload(client: LongleafClient, documents: Sequence[_Document]) -> str:
    collection_id: str = client.get_or_create_collection("context")["id"]
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for document in documents:
            paths.append(Path(folder) / document.name)
            paths[-1].write_text(document.text, encoding="utf-8")
        for upload in client.upload(collection_id, paths):
            client.wait_for_job(upload.job["id"])
    return collection_id


def _ask(
    client: LongleafClient, collection_id: str, document_id: str, document: _Document, way: Way
) -> _Series:
    series = _Series()
    for question in document.questions:
        answer = client.ask(
            collection_id,
            question,
            mode="abstractive",
            context=way,
            extraction="none",
            prefix_planner=False,
            max_tokens=_MAX_TOKENS,
            filter={"document_ids": [document_id]},
        )
        usage, timings = answer["usage"], answer["timings"] or {}
        if not usage or not usage["prompt_tokens"]:
            continue  # refused before anything was written, the same both ways
        series.prompt_tokens.append(usage["prompt_tokens"])
        series.cached_tokens.append(usage["cached_tokens"])
        series.ttft_seconds.append(timings["engine_ttft_seconds"] or 0.0)
    return series


def _predicted(ways: dict[Way, _Series], share: float) -> float:
    """By the rule, from the lengths alone."""
    whole, passages = (float(np.mean(ways[way].prompt_tokens)) for way in WAYS)
    return break_even_questions(round(whole), round(passages), share)


def break_even_questions(whole_tokens: int, passage_tokens: int, cached_share: float) -> float:
    """With how many questions a document whole costs no more than passages; infinite if with none.

    Whole: `whole_tokens` once, then `cached_share` of them with each further question. Passages:
    `passage_tokens` with each question.
    """
    saved = passage_tokens - cached_share * whole_tokens
    if saved <= 0:
        return math.inf
    return max(1.0, math.ceil(whole_tokens * (1 - cached_share) / saved))


def _measured(ways: dict[Way, _Series], share: float) -> float:
    """The first number of questions with which the whole document cost no more; infinite if none."""
    cheaper = ways["whole"].costs(share) <= ways["passages"].costs(share)
    return float(np.argmax(cheaper)) + 1 if cheaper.any() else float("inf")


def _ratio(series: dict[str, dict[Way, _Series]], what: Literal["computed", "ttft"]) -> float:
    def of(way: Way) -> float:
        if what == "ttft":
            return float(np.median([s for ways in series.values() for s in ways[way].ttft_seconds]))
        return float(
            sum(sum(ways[way].prompt_tokens) - sum(ways[way].cached_tokens) for ways in series.values())
        )

    return of("whole") / of("passages")


def _as_json(series: _Series) -> dict[str, Any]:
    return {
        "prompt_tokens": series.prompt_tokens,
        "cached_tokens": series.cached_tokens,
        "ttft_seconds": [round(seconds, 4) for seconds in series.ttft_seconds],
    }


def _table(
    documents: Sequence[_Document],
    series: dict[str, dict[Way, _Series]],
    predicted: Sequence[float],
    measured: Sequence[float],
) -> BenchTable:
    rows = [
        (
            document.name,
            way,
            str(len(series[document.name][way].prompt_tokens)),
            f"{np.mean(series[document.name][way].prompt_tokens):,.0f}",
            f"{sum(series[document.name][way].prompt_tokens) - sum(series[document.name][way].cached_tokens):,}",
            f"{np.median(series[document.name][way].ttft_seconds):.2f}",
            f"{by_rule:g} / {found:g}",
        )
        for document, by_rule, found in zip(documents, predicted, measured, strict=True)
        for way in WAYS
    ]
    return BenchTable(
        "whole document or passages",
        (
            "document",
            "way",
            "questions",
            "prompt tokens",
            "computed",
            "TTFT p50, s",
            "pays after: rule / found",
        ),
        rows,
    )
