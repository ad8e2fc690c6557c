"""How right the capacity planner is: KV blocks and time to the first token, predicted ÷ real.

Engines are started with different room for the cache; what each reports is held against the plan
made beforehand. Rates are fitted to prompts of some lengths, and predict others of the same run,
shorter and longer, computed and cached.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log

from bench.own_engine import OwnEngine, running_engine
from bench.report import BenchOptions, BenchResult, BenchTable
from bench.token_prompts import Timed, generate, random_prompt
from core.errors import EngineIncapable
from inference.capacity.plan import CapacityPlan
from inference.capacity.rates import EngineSample, fit_rates
from inference.engine_plan import PlanOptions, plan_engine
from inference.machine import detect_machine
from inference.prepare import model_path
from inference.registry import find_model

_MIB = 1024**2
_ANSWER_TOKENS = 24
# Longest prompts of each kind last, so that both fitting and predicting meet all lengths.
_FITTED, _PREDICTED = (48, 200, 640, 1600, 3000), (100, 400, 1000, 2200, 4000)
_QUICK_FITTED, _QUICK_PREDICTED = (48, 160, 400, 900), (90, 300, 1300)
_CACHED_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class _Case:
    """A prompt whose first `cached_tokens` were sent before."""

    prompt_tokens: int
    cached_tokens: int


def run(options: BenchOptions) -> BenchResult:
    """The ratios farthest from 1, and all of them as details."""
    caches = [{"kv_cache_bytes": 1024 * _MIB}]
    if not options.quick:
        caches.append({"kv_cache_bytes": 333 * _MIB, "max_model_len": 2048})
    capacity: list[tuple[CapacityPlan, int]] = []
    timed: list[tuple[_Case, Timed, float]] = []
    for number, changes in enumerate(caches):
        with running_engine(options, "planner", **changes) as engine:
            capacity.append((_plan(options, engine), _real_blocks(engine)))
            if number == 0:
                timed = _predict_times(engine, quick=options.quick)
    block_ratios = [plan.num_blocks / real for plan, real in capacity]
    ttft_ratios = [predicted / answer.ttft_seconds for _, answer, predicted in timed]
    return BenchResult(
        name="planner",
        config={"engines": caches, "answer_tokens": _ANSWER_TOKENS, "num_prompts": len(timed)},
        figures={
            "kv_capacity_ratio": _farthest(block_ratios),
            "ttft_ratio": _farthest(ttft_ratios),
        },
        details={
            "kv": [
                {"kv_cache_bytes": plan.kv_bytes, "predicted_blocks": plan.num_blocks, "real_blocks": real}
                for plan, real in capacity
            ],
            "ttft": [
                {
                    "prompt_tokens": case.prompt_tokens,
                    "cached_tokens": answer.usage.cached_tokens,
                    "predicted_seconds": predicted,
                    "real_seconds": answer.ttft_seconds,
                    "ratio": predicted / answer.ttft_seconds,
                }
                for case, answer, predicted in timed
            ],
        },
        tables=[_ttft_table(timed)],
    )


def _plan(options: BenchOptions, engine: OwnEngine) -> CapacityPlan:
    spec = find_model(engine.settings.model, role="generator", revision=engine.settings.revision)
    return plan_engine(
        engine.settings,
        PlanOptions(),
        model_folder=model_path(spec, options.model_dir),
        data_folder=options.home,
        machine=detect_machine(),
    )


def _real_blocks(engine: OwnEngine) -> int:
    cache = engine.client.engine_cache()
    if cache is None:
        raise EngineIncapable("The engine does not report its KV cache.", remedy="Run it with metrics.")
    return cache.num_blocks


def _predict_times(engine: OwnEngine, *, quick: bool) -> list[tuple[_Case, Timed, float]]:
    """Each predicted case, its real answer (the faster of two), and the seconds predicted from rates fitted
    to the other cases and the cached tokens that the answer reported."""
    repeats = 1 if quick else 2
    generate(engine.client, random_prompt(64, seed=0), max_tokens=2)  # the first request is no sample
    fitted = list(_ask(engine, _cases(_QUICK_FITTED if quick else _FITTED), first_seed=1, repeats=repeats))
    rates = fit_rates([_sample(answer) for _, answer in fitted])
    assert rates is not None, "there are more lengths than a fit needs"
    cases = _cases(_QUICK_PREDICTED if quick else _PREDICTED)
    return [
        (
            case,
            answer,
            rates.ttft_seconds(case.prompt_tokens, cached_tokens=answer.usage.cached_tokens),
        )
        for case, answer in _ask(engine, cases, first_seed=1000, repeats=repeats)
    ]


def _cases(lengths: Sequence[int]) -> list[_Case]:
    """Each length once computed and once, from the middle up, mostly cached."""
    computed = [_Case(length, 0) for length in lengths]
    cached = [_Case(n, round(n * _CACHED_SHARE)) for n in lengths[len(lengths) // 2 :]]
    return computed + cached


def _ask(
    engine: OwnEngine, cases: Iterable[_Case], *, first_seed: int, repeats: int
) -> Iterable[tuple[_Case, Timed]]:
    """The fastest of `repeats` answers to each case: what else the machine does slows the others."""
    seed = first_seed
    for case in cases:
        answers = []
        for _ in range(repeats):
            prompt = random_prompt(case.prompt_tokens, seed=seed)
            if case.cached_tokens:
                generate(engine.client, prompt[: case.cached_tokens], max_tokens=1)
            answers.append(generate(engine.client, prompt, max_tokens=_ANSWER_TOKENS))
            seed += 1
        yield case, min(answers, key=lambda answer: answer.ttft_seconds)


def _sample(answer: Timed) -> EngineSample:
    usage, timings = answer.usage, answer.timings
    return EngineSample(
        usage.prompt_tokens,
        usage.cached_tokens,
        usage.completion_tokens,
        timings.ttft_seconds - timings.queue_seconds,
        timings.decode_seconds,
    )


def _farthest(ratios: Sequence[float]) -> float:
    """The ratio that is most wrong, too high or too low."""
    return max(ratios, key=lambda ratio: abs(log(ratio)))


def _ttft_table(timed: Sequence[tuple[_Case, Timed, float]]) -> BenchTable:
    return BenchTable(
        "time to the first token",
        ("prompt tokens", "cached", "predicted s", "real s", "ratio"),
        [
            (
                f"{case.prompt_tokens:,}",
                f"{answer.usage.cached_tokens:,}",
                f"{predicted:.3f}",
                f"{answer.ttft_seconds:.3f}",
                f"{predicted / answer.ttft_seconds:.2f}",
            )
            for case, answer, predicted in timed
        ],
    )
