"""Search quality on open sets, through the product's own pipeline and index files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from bench.metrics import (
    contains_answer,
    ndcg_at,
    recall_at,
    reciprocal_rank,
)
from bench.report import BenchOptions, BenchResult, BenchTable
from bench.search_collection import MemoizingEmbedder, SearchBed
from bench.search_sets import SETS, Question, SearchSet, load_set
from core.errors import Misconfigured
from core.ids import ChunkId, CollectionId
from evaluation.paired_bootstrap import Difference, paired_bootstrap
from inference.encoders import load_embedder
from inference.prepare import Backend
from retrieval.extraction import EmbeddingExtractor
from retrieval.fusion import FusedChunk
from retrieval.pipeline import SearchResult
from retrieval.sentence_vectors import SentenceVectors
from retrieval.support import SupportEstimator

System = Literal["dense", "bm25", "hybrid"]
SYSTEMS: tuple[System, ...] = get_args(System)
_METRICS = ("recall@1", "recall@5", "recall@20", "mrr@10", "ndcg@10")
_NUM_CANDIDATES = 50
_NUM_SENTENCES = 2
_EMBEDDER = "multilingual-e5-small"


@dataclass(slots=True)
class _SetResult:
    """Per system and metric, one value a question; and the share of answers extracted."""

    name: str
    values: dict[System, dict[str, list[float]]] = field(
        default_factory=lambda: {s: {m: [] for m in _METRICS} for s in SYSTEMS}
    )
    answered: list[float] = field(default_factory=list)
    supported: list[float] = field(default_factory=list)

    def mean(self, system: System, metric: str) -> float:
        return _mean(self.values[system][metric])


class _Reader:
    """What an extractive answer would be made of, and whether it would be given."""

    def __init__(self, embedder: MemoizingEmbedder) -> None:
        self._embedder = embedder
        self._extractor = EmbeddingExtractor(embedder, embedder.tokenizer)
        self._support = SupportEstimator(embedder)

    def read(self, question: Question, found: SearchResult) -> tuple[float, float]:
        """1 where the sentences hold the answer, and 1 where the passages count as support."""
        vectors = SentenceVectors(self._embedder)
        extraction = self._extractor.extract(
            question.text,
            found.passages,
            num_sentences=_NUM_SENTENCES,
            vectors=vectors,
            query_vector=found.query_vector,
        )
        support = self._support.estimate(
            question.text, found.passages, vectors=vectors, query_vector=found.query_vector
        )
        holds = any(contains_answer(s.text, question.answers) for s in extraction.sentences)
        return float(holds), float(support.is_supported)


def run(options: BenchOptions) -> BenchResult:
    """Measure dense, BM25 and hybrid search, and two-sentence answers.

    `extra` takes `embedder` (a registry name) and `backend` (`openvino` or `torch`).
    """
    name, backend = options.extra.get("embedder", _EMBEDDER), _backend(options)
    embedder = MemoizingEmbedder(load_embedder(name, options.model_dir, backend=backend))
    reader = _Reader(embedder)
    results = []
    with tempfile.TemporaryDirectory(prefix="longleaf-bench-") as folder:
        bed = SearchBed(Path(folder), embedder)
        for files in SETS:
            search_set = load_set(files, options.data_dir, quick=options.quick)
            results.append(_measure(bed, reader, embedder, search_set))
        bed.close()
    config = {
        "embedder": embedder.name,
        "embedder_revision": embedder.revision,
        "backend": backend,
        "quick": options.quick,
        "num_candidates": _NUM_CANDIDATES,
    }
    return BenchResult(
        name="search",
        config=config,
        figures=_figures(results),
        details=_details(results),
        tables=_tables(results),
    )


def _backend(options: BenchOptions) -> Backend:
    backend = options.extra.get("backend", "openvino")
    if backend == "openvino":
        return "openvino"
    if backend == "torch":
        return "torch"
    raise Misconfigured(f"There is no encoder backend {backend!r}.", remedy="Use openvino or torch.")


def _measure(
    bed: SearchBed, reader: _Reader, embedder: MemoizingEmbedder, search_set: SearchSet
) -> _SetResult:
    collection_id, names = bed.add(search_set)
    embedder.embed_queries([question.text for question in search_set.questions])
    result = _SetResult(search_set.name)
    for question in search_set.questions:
        _ask(bed, reader, collection_id, question, names, result, answers=search_set.has_answers)
    return result


def _ask(
    bed: SearchBed,
    reader: _Reader,
    collection_id: CollectionId,
    question: Question,
    names: Mapping[ChunkId, str],
    result: _SetResult,
    *,
    answers: bool,
) -> None:
    found = bed.pipeline.search(bed.tenant_id, collection_id, question.text, num_candidates=_NUM_CANDIDATES)
    for system, ranking in _rankings(found.ranking, names):
        values = result.values[system]
        for k in (1, 5, 20):
            values[f"recall@{k}"].append(recall_at(ranking, question.relevant, k))
        values["mrr@10"].append(reciprocal_rank(ranking, question.relevant))
        values["ndcg@10"].append(ndcg_at(ranking, question.relevant))
    if answers:
        answered, supported = reader.read(question, found)
        result.answered.append(answered)
        result.supported.append(supported)


def _rankings(
    fused: Sequence[FusedChunk], names: Mapping[ChunkId, str]
) -> Iterator[tuple[System, list[str]]]:
    """The three rankings: each side's own order is kept on the fused chunks."""
    dense = sorted((c.dense_rank, c.chunk_id) for c in fused if c.dense_rank is not None)
    lexical = sorted((c.lexical_rank, c.chunk_id) for c in fused if c.lexical_rank is not None)
    yield "dense", [names[chunk_id] for _, chunk_id in dense]
    yield "bm25", [names[chunk_id] for _, chunk_id in lexical]
    yield "hybrid", [names[chunk.chunk_id] for chunk in sorted(fused, key=lambda c: c.fused_rank)]


def _figures(results: Sequence[_SetResult]) -> dict[str, float]:
    means = {s: _mean([result.mean(s, "ndcg@10") for result in results]) for s in SYSTEMS}
    return {
        "hybrid_minus_best_single_min": min(_gain(result) for result in results),
        "hybrid_mean_ndcg10": means["hybrid"],
        "dense_mean_ndcg10": means["dense"],
        "bm25_mean_ndcg10": means["bm25"],
    }


def _gain(result: _SetResult) -> float:
    """Points of nDCG@10 that hybrid is above the better side."""
    best = max(result.mean("dense", "ndcg@10"), result.mean("bm25", "ndcg@10"))
    return 100 * (result.mean("hybrid", "ndcg@10") - best)


def _details(results: Sequence[_SetResult]) -> dict[str, Any]:
    return {
        "sets": {
            result.name: {
                "num_questions": len(result.values["hybrid"]["ndcg@10"]),
                **{s: {metric: result.mean(s, metric) for metric in _METRICS} for s in SYSTEMS},
                "hybrid_minus_dense": _interval(_difference(result, "dense")),
                "hybrid_minus_bm25": _interval(_difference(result, "bm25")),
            }
            for result in results
        },
        "two_sentence_answers": {r.name: _mean(r.answered) for r in results if r.answered},
        "false_refusals": {r.name: 1 - _mean(r.supported) for r in results if r.supported},
    }


def _difference(result: _SetResult, other: System) -> Difference:
    return paired_bootstrap(result.values[other]["ndcg@10"], result.values["hybrid"]["ndcg@10"])


def _interval(difference: Difference) -> dict[str, float]:
    return {"mean": difference.mean, "low": difference.low, "high": difference.high}


def _tables(results: Sequence[_SetResult]) -> list[BenchTable]:
    rows = [
        (result.name, system, *(f"{result.mean(system, metric):.3f}" for metric in _METRICS))
        for result in results
        for system in SYSTEMS
    ]
    answers = [
        (r.name, f"{_mean(r.answered):.3f}", f"{1 - _mean(r.supported):.3f}") for r in results if r.answered
    ]
    return [
        BenchTable("search quality", ("set", "system", *_METRICS), rows),
        BenchTable("answers of two sentences", ("set", "hold the answer", "refused"), answers),
    ]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
