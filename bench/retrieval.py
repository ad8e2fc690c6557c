"""Search and reranking on the standard retrieval suite, through the product's own pipeline."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from bench.metrics import ndcg_at, recall_at, reciprocal_rank
from bench.report import BenchOptions, BenchResult, BenchTable
from bench.retrieval_sets import (
    EvidenceMap,
    Language,
    RetrievalSet,
    SuiteDocument,
    SuiteQuestion,
    load_suite,
    page_key,
    sample,
    shrink,
)
from bench.search_collection import CutDocument, MemoizingEmbedder, SearchBed
from core.ids import ChunkId
from core.settings import ChunkSettings
from evaluation.paired_bootstrap import Difference, paired_bootstrap
from inference.encoders import load_embedder
from inference.protocols import Tokenizer
from ingest.chunking import chunk_document
from retrieval.fusion import FusedChunk
from retrieval.pipeline import SearchResult
from storage.chunks import ChunkRepository, LiveChunk

System = Literal["dense", "bm25", "hybrid", "reranked"]
SYSTEMS: tuple[System, ...] = get_args(System)
_METRICS = ("recall@1", "recall@5", "recall@20", "mrr@10", "ndcg@10")
_MAIN = "ndcg@10"
_NUM_CANDIDATES = 50
_NUM_QUESTIONS = 400
_QUICK_QUESTIONS = 40
_QUICK_CHARACTERS: Mapping[Language, int] = {"en": 250_000, "zh": 70_000, "cross": 250_000}
_EMBEDDER = "multilingual-e5-small"

Keys = Callable[[SuiteQuestion, LiveChunk], Iterable[str]]


@dataclass(slots=True)
class _SetResult:
    """Per system and metric, one value a question; and what reranking cost."""

    retrieval_set: RetrievalSet
    values: dict[System, dict[str, list[float]]] = field(
        default_factory=lambda: {s: {m: [] for m in _METRICS} for s in SYSTEMS}
    )
    is_held_out: list[bool] = field(default_factory=list)
    rerank_tokens: list[int] = field(default_factory=list)

    @property
    def num_questions(self) -> int:
        return len(self.is_held_out)

    def mean(self, system: System, metric: str = _MAIN) -> float:
        return _mean(self.values[system][metric])

    def held_out_mean(self, system: System) -> float:
        """nDCG@10 of the questions that had no say in the weights."""
        pairs = zip(self.values[system][_MAIN], self.is_held_out, strict=True)
        return _mean([value for value, held_out in pairs if held_out])

    def gain(self) -> float:
        """Points of nDCG@10 that hybrid is above the better side."""
        return 100 * (self.mean("hybrid") - max(self.mean("dense"), self.mean("bm25")))

    def difference(self, better: System, other: System) -> Difference:
        return paired_bootstrap(self.values[other][_MAIN], self.values[better][_MAIN])


def run(options: BenchOptions) -> BenchResult:
    """Measure dense, BM25, hybrid and reranked search on ten sets.

    Documents are cut as the product cuts them; a page or a document ranks where its best chunk
    does. `extra` takes `embedder` (a registry name).
    """
    name = options.extra.get("embedder", _EMBEDDER)
    results = []
    with tempfile.TemporaryDirectory(prefix="longleaf-bench-") as folder:
        embedder = MemoizingEmbedder(load_embedder(name, options.model_dir))
        bed = SearchBed(Path(folder), embedder)
        for whole in load_suite(options.data_dir):
            results.append(_measure(bed, embedder, _of_size(whole, quick=options.quick)))
        bed.close()
    config = {
        "embedder": embedder.name,
        "embedder_revision": embedder.revision,
        "quick": options.quick,
        "num_candidates": _NUM_CANDIDATES,
        "max_questions": _QUICK_QUESTIONS if options.quick else _NUM_QUESTIONS,
    }
    return BenchResult(
        name="retrieval",
        config=config,
        figures=_figures(results),
        details=_details(results),
        tables=_tables(results),
    )


def _of_size(whole: RetrievalSet, *, quick: bool) -> RetrievalSet:
    if quick:
        characters = _QUICK_CHARACTERS[whole.language]
        return shrink(whole, num_questions=_QUICK_QUESTIONS, num_characters=characters)
    return sample(whole, _NUM_QUESTIONS)


def _measure(bed: SearchBed, embedder: MemoizingEmbedder, retrieval_set: RetrievalSet) -> _SetResult:
    documents = [_cut(document, embedder.tokenizer) for document in retrieval_set.documents]
    collection_id, names = bed.add_documents(retrieval_set.name, [d for d in documents if d.drafts])
    embedder.embed_queries([question.text for question in retrieval_set.questions])
    with bed.database.read() as session:
        chunks = {
            chunk.id: chunk for chunk in ChunkRepository(session, bed.tenant_id).list_live(collection_id)
        }
    relevant, keys = _judgements(retrieval_set, names, chunks)
    result = _SetResult(retrieval_set)
    for question in retrieval_set.questions:
        wanted = relevant(question)
        if wanted:
            found = bed.pipeline.search(
                bed.tenant_id, collection_id, question.text, num_candidates=_NUM_CANDIDATES
            )
            _score(result, question, found, wanted, chunks, keys)
    return result


def _judgements(
    retrieval_set: RetrievalSet, names: Mapping[ChunkId, str], chunks: Mapping[ChunkId, LiveChunk]
) -> tuple[Callable[[SuiteQuestion], Mapping[str, int]], Keys]:
    """What a question wants, and which keys a chunk counts as."""
    if retrieval_set.unit == "evidence":
        evidence = EvidenceMap(retrieval_set.questions, ((names[id], chunk) for id, chunk in chunks.items()))
        return evidence.relevant, evidence.keys
    if retrieval_set.unit == "page":
        return _own_judgements, lambda _, chunk: (
            page_key(names[chunk.id], page) for page in range(chunk.first_page, chunk.last_page + 1)
        )
    return _own_judgements, lambda _, chunk: (names[chunk.id],)


def _own_judgements(question: SuiteQuestion) -> Mapping[str, int]:
    return question.relevant


def _score(
    result: _SetResult,
    question: SuiteQuestion,
    found: SearchResult,
    wanted: Mapping[str, int],
    chunks: Mapping[ChunkId, LiveChunk],
    keys: Keys,
) -> None:
    for system in SYSTEMS:
        order = _order(found.ranking, system)
        ranking = list(dict.fromkeys(key for chunk_id in order for key in keys(question, chunks[chunk_id])))
        values = result.values[system]
        for k in (1, 5, 20):
            values[f"recall@{k}"].append(recall_at(ranking, wanted, k))
        values["mrr@10"].append(reciprocal_rank(ranking, wanted))
        values[_MAIN].append(ndcg_at(ranking, wanted))
    result.is_held_out.append(question.is_held_out)
    result.rerank_tokens.append(sum(use.num_tokens for use in found.rerank_uses))


def _order(ranking: Sequence[FusedChunk], system: System) -> list[ChunkId]:
    """One system's order of the chunks that it found itself."""
    if system == "reranked":
        return [chunk.chunk_id for chunk in ranking]
    if system == "hybrid":
        return [chunk.chunk_id for chunk in sorted(ranking, key=lambda chunk: chunk.fused_rank)]
    ranks = {c.chunk_id: c.dense_rank if system == "dense" else c.lexical_rank for c in ranking}
    own = [
        (rank, chunk_id) for chunk_id, rank in ranks.items() if rank is not None and rank <= _NUM_CANDIDATES
    ]
    return [chunk_id for _, chunk_id in sorted(own)]


def _cut(document: SuiteDocument, tokenizer: Tokenizer) -> CutDocument:
    limits = ChunkSettings()  # type: ignore[call-arg]  # every field has a default
    drafts = chunk_document(
        document.text,
        document.headings,
        document.page_starts,
        embedder_tokenizer=tokenizer,
        generator_tokenizer=tokenizer,
        max_tokens=limits.max_tokens,
        overlap_tokens=limits.overlap_tokens,
    )
    return CutDocument(document.id, document.title, document.text, drafts)


def _figures(results: Sequence[_SetResult]) -> dict[str, float]:
    means = {f"mean_ndcg10_{s}": _mean([result.mean(s) for result in results]) for s in SYSTEMS}
    return {**means, "hybrid_minus_best_single_min": min(result.gain() for result in results)}


def _details(results: Sequence[_SetResult]) -> dict[str, Any]:
    return {
        "sets": {
            result.retrieval_set.name: {
                "language": result.retrieval_set.language,
                "unit": result.retrieval_set.unit,
                "num_questions": result.num_questions,
                "num_held_out": sum(result.is_held_out),
                **{s: {metric: result.mean(s, metric) for metric in _METRICS} for s in SYSTEMS},
                "held_out_ndcg10": {s: result.held_out_mean(s) for s in SYSTEMS},
                "hybrid_minus_best_single": result.gain(),
                "reranked_minus_hybrid": _interval(result.difference("reranked", "hybrid")),
                "hybrid_minus_dense": _interval(result.difference("hybrid", "dense")),
                "hybrid_minus_bm25": _interval(result.difference("hybrid", "bm25")),
                "rerank_tokens_mean": _mean(result.rerank_tokens),
            }
            for result in results
        },
        "held_out_mean_ndcg10": {
            s: _mean([result.held_out_mean(s) for result in results if any(result.is_held_out)])
            for s in SYSTEMS
        },
    }


def _interval(difference: Difference) -> dict[str, float]:
    return {"mean": difference.mean, "low": difference.low, "high": difference.high}


def _tables(results: Sequence[_SetResult]) -> list[BenchTable]:
    rows = [
        (_label(result), system, *(f"{result.mean(system, metric):.3f}" for metric in _METRICS))
        for result in results
        for system in SYSTEMS
    ]
    differences = [
        (
            _label(result),
            str(result.num_questions),
            f"{result.gain():+.1f}",
            _points(result.difference("reranked", "hybrid")),
            str(sum(result.is_held_out)),
            " / ".join(f"{result.held_out_mean(s):.3f}" for s in SYSTEMS) if any(result.is_held_out) else "–",
        )
        for result in results
    ]
    return [
        BenchTable(
            "retrieval quality (* some of the questions, ** all of them had a say in constants)",
            ("set", "system", *_METRICS),
            rows,
        ),
        BenchTable(
            "nDCG@10: points with their 95 % interval; values on the questions that chose no constant",
            ("set", "questions", "hybrid - best side", "reranked - hybrid", "unseen", " / ".join(SYSTEMS)),
            differences,
        ),
    ]


def _label(result: _SetResult) -> str:
    marks = "" if all(result.is_held_out) else " *" if any(result.is_held_out) else " **"
    return result.retrieval_set.name + marks


def _points(difference: Difference) -> str:
    low, high = 100 * difference.low, 100 * difference.high
    return f"{100 * difference.mean:+.1f} ({low:+.1f} to {high:+.1f})"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
