"""Summaries: is everything read, is nothing read twice, and how good are they beside LangChain's.

One service reads the `sum-*` sets, each text a document, and summarizes each with its default writer and
with the engine; LangChain's map-reduce summarizer has the same engine and the same room, in a process of
its own. ROUGE-L is the better of the references', by words or by Chinese characters; `similarity` is the
inner product of the embedder's vectors. The room is the mean length of a set's references, which is what
a user sets `length_tokens` for.

Ten documents are then summarized together three times: anew, unchanged, and with one of them changed.

`extra` takes `peers.python` (see `bench.peers`), `per_set`, and `writers` (`extractive` leaves the engine's
own summaries out).
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from bench.own_engine import running_engine
from bench.peers.process import DEFAULT_PYTHON, PeerProcess
from bench.peers.protocol import PeerOptions
from bench.report import BenchOptions, BenchResult, BenchTable
from bench.rouge import rouge_l
from bench.service import running_service
from bench.summary_sets import SummaryCase, load_cases
from bootstrap.retrieval_services import build_embedder
from client import LongleafClient, Summary
from core.settings import load_settings
from generation.attribution import strip_marks
from generation.quotes import estimate_tokens
from inference.engine_metrics import parse_counters

PEER = "langchain"
WRITERS = ("extractive", "abstractive")
_NUM_TOGETHER = 10
_TOGETHER_CHARACTERS = 6000
_TIMEOUT_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Scored:
    """A summary of one text by one system; `computed` are prompt tokens that the engine computed."""

    system: str
    set_name: str
    name: str
    text: str
    rouge_l: float
    similarity: float
    computed: int


def run(options: BenchOptions) -> BenchResult:
    """The figures of `BENCH.md`; ours are the default writer's.

    Raises:
        NotFound: a set is not there.
        Misconfigured: the peer is not installed.
    """
    per_set = int(options.extra.get("per_set", 1 if options.quick else 12))
    cases = load_cases(options.data_dir, per_set=per_set)
    writers = options.extra.get("writers", ",".join(WRITERS)).split(",")
    rooms = _rooms(cases)
    with running_engine(options, "summaries") as engine:
        bench = _Bench(options, cases, rooms, engine_url=engine.client.url)
        with running_service(options, "summaries", with_engine=False, engine_url=engine.client.url) as (
            _,
            client,
        ):
            scores, coverage, default = bench.ours(client, writers)
            together = bench.together(client)
        scores += bench.peer(engine.settings.model, engine.client.info().max_model_len)
    return _result(cases, scores, coverage, default, together, options)


class _Bench:
    def __init__(
        self, options: BenchOptions, cases: Sequence[SummaryCase], rooms: dict[str, int], *, engine_url: str
    ) -> None:
        self._options = options
        self._cases = cases
        self._rooms = rooms
        self._engine_url = engine_url
        settings = load_settings().model_copy(update={"model_cache": options.model_dir})
        self._embedder = build_embedder(settings)

    def ours(self, client: LongleafClient, writers: Sequence[str]) -> tuple[list[Scored], list[float], str]:
        """Scores by writer, the share of pages read of each run, and the writer that is the default."""
        collection_id = client.get_or_create_collection("texts")["id"]
        ids = _upload(client, collection_id, {case.name: case.text for case in self._cases})
        scores, coverage = [], []
        for writer in writers:
            for case in self._cases:
                with self._measured() as measured:
                    summary = _summarize(
                        client,
                        collection_id,
                        writer=writer,
                        length_tokens=self._rooms[case.set_name],
                        filter={"document_ids": [ids[case.name]]},
                    )
                coverage.append(float(summary["coverage"]["share"]))
                scores.append(self._score(writer, case, summary["text"] or "", measured))
        return scores, coverage, client.quote_summary(collection_id)["mode"]

    def together(self, client: LongleafClient) -> dict[str, Any]:
        """Tokens of three runs over ten documents: anew, unchanged, one of them changed."""
        collection_id = client.get_or_create_collection("together")["id"]
        pieces = _pieces(self._cases)
        ids = _upload(client, collection_id, pieces)
        runs = [_summarize(client, collection_id), _summarize(client, collection_id)]
        changed = next(iter(pieces))
        client.delete_document(ids[changed])
        _upload(client, collection_id, {f"{changed}-2": _revised(pieces[changed])})
        runs.append(_summarize(client, collection_id))
        return {
            "num_tokens": [run["num_tokens"] for run in runs],
            "num_computed": [run["num_computed"] for run in runs],
            "coverage": [run["coverage"]["share"] for run in runs],
        }

    def peer(self, model: str, window: int) -> list[Scored]:
        """LangChain's summaries of the same texts."""
        scores = []
        python = Path(self._options.extra.get("peers.python", DEFAULT_PYTHON))
        for room in sorted(set(self._rooms.values())):
            options = PeerOptions(self._engine_url, model, window, embedder="", max_tokens=room)
            log_path = self._options.home / "peer-summaries.log"
            with PeerProcess(
                "langchain_summaries", python=python, options=options, log_path=log_path
            ) as peer:
                for case in self._cases:
                    if self._rooms[case.set_name] != room:
                        continue
                    with self._measured() as measured, tempfile.TemporaryDirectory() as folder:
                        file = Path(folder) / "text.txt"
                        file.write_text(case.text, encoding="utf-8")
                        peer.index([file], case.language)
                        [answer] = peer.ask(["Summarize."], num_at_once=1)
                    if answer.error:
                        print(f"{PEER}, {case.name}: {answer.error}", file=sys.stderr)
                    scores.append(self._score(PEER, case, answer.answer, measured))
        return scores

    @contextmanager
    def _measured(self) -> Iterator[_Measured]:
        measured = _Measured(self._computed())
        yield measured
        measured.computed = self._computed() - measured.before

    def _computed(self) -> int:
        counters = parse_counters(httpx.get(f"{self._engine_url}/metrics", timeout=60.0).text)
        return counters.prompt_tokens - counters.cached_tokens

    def _score(self, system: str, case: SummaryCase, text: str, measured: _Measured) -> Scored:
        spoken = strip_marks(text)
        scored = Scored(
            system,
            case.set_name,
            case.name,
            spoken,
            rouge_l(spoken, case.references),
            self._similarity(spoken, case.references),
            measured.computed,
        )
        print(f"{system}, {case.name}: ROUGE-L {scored.rouge_l:.3f}", file=sys.stderr)
        return scored

    def _similarity(self, text: str, references: Sequence[str]) -> float:
        if not text.strip():
            return 0.0
        vectors = self._embedder.embed_passages([text, *references]).vectors
        return float((vectors[1:] @ vectors[0]).max())


@dataclass(slots=True)
class _Measured:
    before: int
    computed: int = 0


def _rooms(cases: Sequence[SummaryCase]) -> dict[str, int]:
    """The mean length of each set's references, to the nearest ten tokens."""
    lengths: dict[str, list[int]] = defaultdict(list)
    for case in cases:
        lengths[case.set_name] += [estimate_tokens(reference) for reference in case.references]
    return {name: max(20, 10 * round(float(np.mean(found)) / 10)) for name, found in lengths.items()}


def _pieces(cases: Sequence[SummaryCase]) -> dict[str, str]:
    """Ten documents of about the same length, out of the texts."""
    pieces: dict[str, str] = {}
    for start in range(0, 10 * _TOGETHER_CHARACTERS, _TOGETHER_CHARACTERS):
        for case in cases:
            piece = case.text[start : start + _TOGETHER_CHARACTERS]
            if case.language == "en" and len(piece) == _TOGETHER_CHARACTERS and len(pieces) < _NUM_TOGETHER:
                pieces[f"{case.name}-{start}"] = piece
    return pieces


def _revised(text: str) -> str:
    """A text with another paragraph in its middle."""
    middle = text.find(" ", len(text) // 2)
    return f"{text[:middle]}\n\nThis part was revised after the committee had met again in May.\n\n{text[middle:]}"


def _upload(client: LongleafClient, collection_id: str, texts: dict[str, str]) -> dict[str, str]:
    """The documents' ids by name."""
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, text in texts.items():
            file = Path(folder) / f"{name}.txt"
            file.write_text(text, encoding="utf-8")
            files.append(file)
        for batch in client.upload(collection_id, files):
            client.wait_for_job(batch.job["id"], timeout=_TIMEOUT_SECONDS)
    found = {document["name"]: document["id"] for document in client.list_documents(collection_id)}
    return {name: found[f"{name}.txt"] for name in texts}


def _summarize(client: LongleafClient, collection_id: str, **options: Any) -> Summary:
    summary = client.create_summary(collection_id, **options)
    client.wait_for_job(summary["job_id"], timeout=_TIMEOUT_SECONDS)
    return client.get_summary(summary["id"])


def _result(
    cases: Sequence[SummaryCase],
    scores: Sequence[Scored],
    coverage: Sequence[float],
    default: str,
    together: dict[str, Any],
    options: BenchOptions,
) -> BenchResult:
    anew, unchanged, changed = together["num_tokens"]
    computed = {system: sum(s.computed for s in scores if s.system == system) for system in (*WRITERS, PEER)}
    return BenchResult(
        name="summaries",
        config={"num_texts": len(cases), "default_writer": default, "quick": options.quick},
        figures={
            "coverage": min([*coverage, *together["coverage"]]),
            "unchanged_generated_tokens": unchanged,
            "one_of_ten_changed_share": changed / max(1, anew),
            "rouge_l_ours": _mean(scores, default, "rouge_l"),
            "rouge_l_langchain": _mean(scores, PEER, "rouge_l"),
            "computed_prefill_vs_langchain": computed[default] / max(1, computed[PEER]),
        },
        details={
            "together": together,
            "computed_prefill": computed,
            "abstractive_prefill_vs_langchain": computed["abstractive"] / max(1, computed[PEER]),
            "rouge_l": {system: _mean(scores, system, "rouge_l") for system in (*WRITERS, PEER)},
            "similarity": {system: _mean(scores, system, "similarity") for system in (*WRITERS, PEER)},
            "summaries": [asdict(score) for score in scores],
        },
        tables=[_table(scores)],
    )


def _mean(scores: Sequence[Scored], system: str, name: str, set_name: str = "") -> float:
    values = [
        getattr(score, name)
        for score in scores
        if score.system == system and set_name in ("", score.set_name)
    ]
    return float(np.mean(values)) if values else 0.0


def _table(scores: Sequence[Scored]) -> BenchTable:
    sets = list(dict.fromkeys(score.set_name for score in scores))
    rows = [
        (
            system,
            *(f"{_mean(scores, system, 'rouge_l', name):.3f}" for name in sets),
            f"{_mean(scores, system, 'rouge_l'):.3f}",
            f"{_mean(scores, system, 'similarity'):.3f}",
        )
        for system in dict.fromkeys(score.system for score in scores)
    ]
    return BenchTable("ROUGE-L by set, and likeness", ("system", *sets, "all", "likeness"), rows)
