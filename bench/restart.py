"""A static document's first question after a restart of the engine, against computing it.

A round: with neither store nor prefix cache a question about each document is asked cold, which has
the document kept. The engine is killed and started again, what it kept is dropped from the system's
page cache, and the same questions are asked. Every engine answers one unrelated question first.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.report import BenchOptions, BenchResult, BenchTable
from bench.service import running_service
from client import LongleafClient
from core.errors import EngineIncapable, EngineUnavailable, NotFound
from core.settings import Settings
from embedded.stack import EmbeddedStack
from inference.completions_client import CompletionsClient
from inference.kv_store.block_store import usage
from inference.prepare import model_path
from inference.registry import find_model
from inference.tokenizers import HuggingFaceTokenizer

_MAX_TOKENS = 4
_MIN_TOKENS, _MAX_DOCUMENT_TOKENS = 3000, 6500
_WARM_UP = "warm-up.txt", "The Yangtze is 6,300 km long. It rises in Qinghai and ends near Shanghai."


@dataclass(frozen=True, slots=True)
class _Document:
    name: str
    language: str
    text: str
    question: str


@dataclass(frozen=True, slots=True)
class _Asked:
    """One question; `ttft_seconds` counts from the client's send to the engine."""

    prompt_tokens: int
    cached_tokens: int
    ttft_seconds: float
    text: str


@dataclass(frozen=True, slots=True)
class _Pair:
    """A document asked cold and after a restart."""

    document: _Document
    cold: _Asked
    restarted: _Asked

    @property
    def ratio(self) -> float:
        return self.restarted.ttft_seconds / self.cold.ttft_seconds


def run(options: BenchOptions) -> BenchResult:
    """The ratio's median over documents and rounds."""
    num_documents, num_rounds = (1, 1) if options.quick else (4, 3)
    with running_service(options, "restart", with_engine=True) as (stack, client):
        documents = _documents(options.data_dir, stack.settings, num_documents)
        ward = _Ward(stack, client, documents)
        pairs = [pair for _ in range(num_rounds) for pair in ward.round()]
    ratios = [pair.ratio for pair in pairs]
    return BenchResult(
        name="restart",
        config={"num_documents": num_documents, "num_rounds": num_rounds, "max_tokens": _MAX_TOKENS},
        figures={"ttft_after_restart_vs_cold": float(np.median(ratios))},
        details={
            "ratios": [round(ratio, 4) for ratio in ratios],
            "identical_text": all(pair.cold.text == pair.restarted.text for pair in pairs),
            "pairs": [
                {
                    "document": pair.document.name,
                    "cold": asdict(pair.cold),
                    "restarted": asdict(pair.restarted),
                }
                for pair in pairs
            ],
        },
        tables=[_table(pairs)],
    )


class _Ward:
    """The documents in a running service, whose engine is killed between questions."""

    def __init__(self, stack: EmbeddedStack, client: LongleafClient, documents: Sequence[_Document]) -> None:
        self._stack = stack
        self._client = client
        self._documents = documents
        self._store = stack.settings.kv_store_dir
        self._collection_id = client.get_or_create_collection("restart")["id"]
        self._ids = self._upload([_WARM_UP, *((each.name, each.text) for each in documents)])
        for document in documents:
            client.set_document_static(self._ids[document.name])

    def round(self) -> list[_Pair]:
        self._warm_up()
        self._forget()
        cold = [self._ask(document) for document in self._documents]
        self._wait_for_store()
        self._restart()
        self._warm_up()
        drop_from_page_cache(self._store)
        restarted = [self._ask(document) for document in self._documents]
        return [_Pair(*each) for each in zip(self._documents, cold, restarted, strict=True)]

    def _upload(self, files: Sequence[tuple[str, str]]) -> dict[str, str]:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files:
                Path(folder, name).write_text(text, encoding="utf-8")
            paths = [Path(folder, name) for name, _ in files]
            for upload in self._client.upload(self._collection_id, paths):
                self._client.wait_for_job(upload.job["id"])
        return {each["name"]: each["id"] for each in self._client.list_documents(self._collection_id)}

    def _ask(self, document: _Document) -> _Asked:
        answer = self._put(document.question, self._ids[document.name])
        context, timings, used = answer["steps"]["context"], answer["timings"] or {}, answer["usage"] or {}
        if context["context"] != "whole":
            raise EngineIncapable(
                f"{document.name} did not go into the prompt whole: {context['reason']}.",
                remedy="Raise LONGLEAF_ENGINE__MAX_MODEL_LEN.",
            )
        return _Asked(
            used["prompt_tokens"], used["cached_tokens"], timings["engine_ttft_seconds"], answer["text"]
        )

    def _put(self, question: str, document_id: str) -> dict[str, Any]:
        return dict(
            self._client.ask(
                self._collection_id,
                question,
                mode="abstractive",
                max_tokens=_MAX_TOKENS,
                filter={"document_ids": [document_id]},
            )
        )

    def _warm_up(self) -> None:
        self._put("How long is the Yangtze?", self._ids[_WARM_UP[0]])

    def _forget(self) -> None:
        shutil.rmtree(self._store, ignore_errors=True)
        engine = CompletionsClient(self._stack.settings.engine_url, model=self._stack.settings.engine.model)
        engine.reset_prefix_cache()
        engine.close()

    def _wait_for_store(self) -> None:
        """Until nothing more is written."""
        before = -1
        while (now := usage(self._store).num_bytes) != before or not now:
            before = now
            time.sleep(1.0)

    def _restart(self) -> None:
        self._stack.kill("engine")
        _wait(lambda: self._stack.state("engine") != "ready", seconds=60)
        self._stack.wait_ready("engine")


def drop_from_page_cache(folder: Path) -> None:
    """Have the folder's files read from the disk the next time, as after a restart of the machine."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _wait(condition: Callable[[], bool], *, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise EngineUnavailable("The engine outlived being killed.", remedy="Look into its log.")
        time.sleep(0.2)


def _documents(data_dir: Path, settings: Settings, number: int) -> list[_Document]:
    """Reports of `qa-dragonball`, so many joined that a document has 3,000 to 6,500 tokens; English
    and Chinese in turn, each with a question about its first report."""
    folder = data_dir / "qa-dragonball"
    if not folder.is_dir():
        raise NotFound(f"There is no evaluation set {folder}.", remedy="Pass --data or set LONGLEAF_DATA.")
    questions: dict[int, str] = {}
    for row in _rows(folder / "questions.jsonl"):
        if row["answerable"] and len(row["doc_ids"]) == 1:
            questions.setdefault(row["doc_ids"][0], row["question"])
    spec = find_model(settings.engine.model, role="generator", revision=settings.engine.revision)
    tokenizer = HuggingFaceTokenizer(model_path(spec, settings.model_dir))
    reports = [row for row in _rows(folder / "docs.jsonl") if row["doc_id"] in questions]
    found = {
        language: _joined(
            [(questions[row["doc_id"]], row["text"]) for row in reports if row["lang"] == language],
            language,
            tokenizer.count,
            number,
        )
        for language in ("en", "zh")
    }
    return [each for pair in zip(found["en"], found["zh"], strict=True) for each in pair][:number]


def _joined(
    reports: Sequence[tuple[str, str]], language: str, count: Callable[[str], int], number: int
) -> list[_Document]:
    documents: list[_Document] = []
    question, text = "", ""
    for asked, report in reports:
        if not text:
            question = asked
        text += report + "\n\n"
        num_tokens = count(text)
        if num_tokens >= _MIN_TOKENS:
            if num_tokens <= _MAX_DOCUMENT_TOKENS and len(documents) < number:
                documents.append(_Document(f"{language}-{len(documents)}.txt", language, text, question))
            text = ""
    return documents


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _table(pairs: Sequence[_Pair]) -> BenchTable:
    rows = [
        (
            pair.document.name,
            pair.document.language,
            f"{pair.cold.prompt_tokens:,}",
            f"{pair.restarted.cached_tokens:,}",
            f"{pair.cold.ttft_seconds:.2f}",
            f"{pair.restarted.ttft_seconds:.2f}",
            f"{pair.ratio:.3f}",
        )
        for pair in pairs
    ]
    columns = ("document", "language", "prompt tokens", "loaded", "TTFT cold, s", "after restart, s", "ratio")
    return BenchTable("first question about a static document", columns, rows)
