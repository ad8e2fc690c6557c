"""How much of a conversation's question is found by its last turn, by ours, and by a gold rewrite.

`extra` takes `embedder`, `generator` (whose tokens are counted) and, to measure the small model too,
`engine` (URL of a running engine) with `model_questions` (how many questions it rewrites, in all sets).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.conversation_cost import WINDOW, ConversationCost, run_conversation
from bench.conversation_sets import ConversationCorpus, ConversationSet, Half, TurnTask, load_corpora
from bench.metrics import recall_at
from bench.report import BenchOptions, BenchResult, BenchTable
from bench.search_collection import MemoizingEmbedder, SearchBed
from core.ids import ChunkId, CollectionId
from evaluation.paired_bootstrap import paired_bootstrap
from inference.completions_client import CompletionsClient
from inference.encoders import load_embedder
from inference.prepare import model_path
from inference.protocols import ChatTokenizer
from inference.registry import find_model
from inference.small_model import ChatSmallModel
from inference.tokenizers import HuggingFaceTokenizer
from retrieval.history import ModelCondenser, RuleCondenser

_EMBEDDER, _GENERATOR = "multilingual-e5-small", "smollm2-135m-instruct"
_NUM_TURNS = 200
_MODEL_QUESTIONS = 40
_TUNED_WHOLE = frozenset({"mtrag-un"})
"""Sets on whose both halves the rule's settings were chosen."""

Reformulate = Callable[[TurnTask], str]


@dataclass(slots=True)
class _SetResult:
    """recall@5 of every system, one value a question."""

    name: str
    tasks: Sequence[TurnTask]
    values: dict[str, list[float]] = field(default_factory=dict)

    def mean(self, system: str, half: Half | None = None) -> float:
        found = [
            value
            for task, value in zip(self.tasks, self.values[system], strict=True)
            if half is None or task.half == half
        ]
        return sum(found) / len(found) if found else 0.0


def run(options: BenchOptions) -> BenchResult:
    """Measure recall@5 by the last turn, by the whole history, by ours and by the gold rewrite; then
    what 200 turns of one conversation cost."""
    name = options.extra.get("embedder", _EMBEDDER)
    embedder = MemoizingEmbedder(load_embedder(name, options.model_dir, backend="openvino"))
    generator = options.extra.get("generator", _GENERATOR)
    spec = find_model(generator, role="generator")
    tokenizer = HuggingFaceTokenizer(model_path(spec, options.model_dir))
    model = _model_condenser(options, spec.name, tokenizer)
    results: list[_SetResult] = []
    cost: ConversationCost | None = None
    with tempfile.TemporaryDirectory(prefix="longleaf-bench-") as folder:
        bed = SearchBed(Path(folder), embedder)
        for corpus in load_corpora(options.data_dir, quick=options.quick):
            collection_id, names = bed.add(corpus.paragraphs)
            for each in corpus.sets:
                results.append(_measure(bed, collection_id, names, each, embedder, model))
            if cost is None:
                questions = _long_conversation(corpus)
                cost = run_conversation(bed, collection_id, embedder, tokenizer, questions, model=spec.name)
        bed.close()
    assert cost is not None
    return BenchResult(
        name="conversation",
        config={
            "embedder": embedder.name,
            "embedder_revision": embedder.revision,
            "generator": spec.name,
            "window": WINDOW,
            "quick": options.quick,
        },
        figures=_figures(results, cost),
        details=_details(results, cost),
        tables=_tables(results, cost),
    )


def _model_condenser(
    options: BenchOptions, model: str, tokenizer: ChatTokenizer
) -> tuple[ModelCondenser, int] | None:
    """The condenser over the given engine, and how many questions it may be asked."""
    url = options.extra.get("engine")
    if not url:
        return None
    small_model = ChatSmallModel(CompletionsClient(url, model=model, revision=""), tokenizer)
    condenser = ModelCondenser(small_model, fallback=RuleCondenser())
    return condenser, int(options.extra.get("model_questions", _MODEL_QUESTIONS))


def _measure(
    bed: SearchBed,
    collection_id: CollectionId,
    names: dict[ChunkId, str],
    each: ConversationSet,
    embedder: MemoizingEmbedder,
    model: tuple[ModelCondenser, int] | None,
) -> _SetResult:
    result = _SetResult(each.name, each.tasks)
    found: dict[str, list[str]] = {}

    def search(text: str) -> list[str]:
        if text not in found:
            ranking = bed.pipeline.search(bed.tenant_id, collection_id, text).ranking
            found[text] = [names[chunk.chunk_id] for chunk in ranking]
        return found[text]

    for system, reformulate in _systems(each, model):
        texts = [reformulate(task) for task in each.tasks]
        embedder.embed_queries(texts)
        result.values[system] = [
            recall_at(search(text), task.relevant, 5) for text, task in zip(texts, each.tasks, strict=True)
        ]
    return result


def _systems(
    each: ConversationSet, model: tuple[ModelCondenser, int] | None
) -> Iterator[tuple[str, Reformulate]]:
    rule = RuleCondenser()
    yield "last turn", lambda task: task.question
    yield "whole history", _whole_history
    yield "rule", lambda task: rule.condense(task.question, turns=task.turns).text
    if model is not None:
        condenser, limit = model
        chosen = {id(task) for task in each.tasks[:: max(1, len(each.tasks) // limit)]}

        def by_model(task: TurnTask) -> str:
            used = condenser if id(task) in chosen else rule
            return used.condense(task.question, turns=task.turns).text

        yield "model", by_model
    if each.has_rewrites:
        yield "gold rewrite", lambda task: task.rewrite or task.question


def _whole_history(task: TurnTask) -> str:
    said = [part for turn in task.turns for part in (turn.question, turn.answer) if part]
    return "\n".join([*said, task.question])


def _long_conversation(corpus: ConversationCorpus) -> list[str]:
    """Two hundred questions: those of whole conversations, one after another."""
    longest: dict[str, TurnTask] = {}
    for each in corpus.sets:
        for task in each.tasks:
            known = longest.get(task.conversation)
            if known is None or len(task.turns) > len(known.turns):
                longest[task.conversation] = task
    questions = [
        question
        for task in longest.values()
        for question in (*(turn.question for turn in task.turns), task.question)
        if any(character.isalnum() for character in question)
    ]
    while len(questions) < _NUM_TURNS:
        questions += questions
    return questions[:_NUM_TURNS]


def _ours(result: _SetResult) -> str:
    """The better of rule and model."""
    return max((s for s in ("rule", "model") if s in result.values), key=result.mean)


def _figures(results: Sequence[_SetResult], cost: ConversationCost) -> dict[str, float]:
    """Recall over the sets that have gold rewrites, each question counted once."""
    rewritten = [result for result in results if "gold rewrite" in result.values]
    last = _pooled(rewritten, lambda result: "last turn")
    ours = _pooled(rewritten, _ours)
    gold = _pooled(rewritten, lambda result: "gold rewrite")
    return {
        "recall5_last_turn": last,
        "recall5_ours": ours,
        "recall5_gold": gold,
        # Where the rewrite finds no more than the last turn, there is no gap to close, only one to open.
        "gap_closed": (ours - last) / (gold - last) if gold > last else float(ours >= last),
        "cost_turn_200_vs_turn_20": cost.ratio,
    }


def _pooled(results: Sequence[_SetResult], system: Callable[[_SetResult], str]) -> float:
    values = [value for result in results for value in result.values[system(result)]]
    return sum(values) / len(values) if values else 0.0


def _details(results: Sequence[_SetResult], cost: ConversationCost) -> dict[str, Any]:
    return {
        "sets": {result.name: _set_details(result) for result in results},
        "long_conversation": {
            "num_turns": len(cost.turns),
            "max_prompt_tokens": cost.max_prompt_tokens,
            "num_folds": cost.num_folds,
            "summary_tokens": cost.summary_tokens,
            "mean_cost_turns_11_to_30": cost.mean((11, 30)),
            "mean_cost_turns_181_to_200": cost.mean((181, 200)),
        },
    }


def _set_details(result: _SetResult) -> dict[str, Any]:
    difference = paired_bootstrap(result.values["last turn"], result.values[_ours(result)])
    return {
        "num_questions": len(result.tasks),
        "tuned_on": "all" if result.name in _TUNED_WHOLE else "one half",
        "ours": _ours(result),
        "recall@5": {system: result.mean(system) for system in result.values},
        "recall@5 held out": {system: result.mean(system, "held out") for system in result.values},
        "ours_minus_last_turn": {
            "mean": difference.mean,
            "low": difference.low,
            "high": difference.high,
        },
    }


def _tables(results: Sequence[_SetResult], cost: ConversationCost) -> list[BenchTable]:
    rows = [
        (result.name, system, str(len(result.tasks)), f"{result.mean(system):.3f}", _held_out(result, system))
        for result in results
        for system in result.values
    ]
    spans = [
        (f"turns {first} to {last}", f"{cost.mean((first, last)):.3g}")
        for first, last in ((11, 30), (91, 110), (181, 200))
    ]
    return [
        BenchTable("recall@5", ("set", "searched by", "questions", "all", "held-out half"), rows),
        BenchTable("a conversation of 200 turns", ("mean cost of a turn", "USD"), spans),
    ]


def _held_out(result: _SetResult, system: str) -> str:
    if result.name in _TUNED_WHOLE:
        return "tuned"
    if all(task.half == "tuned" for task in result.tasks):
        return "none"
    return f"{result.mean(system, 'held out'):.3f}"
