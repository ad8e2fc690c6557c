"""Decoding: what guessing gains where answers copy their context, what answering many at once gains,
and how near the engine comes to what the machine can do.

Two engines are started one after the other, without and with n-gram speculation and otherwise alike;
both write the same greedy answers. Throughput is measured on cached prefixes, so that it is decoding
alone. The machine's own arithmetic and bandwidth are measured while the engine is idle.

Options: `eager=false` compiles (minutes to start, faster to decode).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from bench.copied_answers import copying_prompts
from bench.decode_load import Load, run_load
from bench.own_engine import OwnEngine, running_engine
from bench.report import BenchOptions, BenchResult, BenchTable
from bench.token_prompts import Timed, generate, random_prompt
from inference.capacity.cpu_speed import CpuSpeed, measure_speed
from inference.capacity.dtypes import bytes_of
from inference.capacity.roofline import Roofline
from inference.capacity.shape import read_config, shape_of
from inference.capacity.weights import read_stored_weights, weight_bytes
from inference.engine_profiles import cpu_dtype
from inference.machine import detect_machine
from inference.prepare import model_path
from inference.registry import find_model
from inference.tokenizers import HuggingFaceTokenizer

TTFT_LIMIT_SECONDS = 2.0
_CONCURRENCIES = (1, 4, 16)
_PREFIX_TOKENS = 512
_QUESTION_TOKENS = 16


@dataclass(frozen=True, slots=True)
class _Size:
    copied_answers: int
    answer_tokens: int
    load_tokens: int
    prefill_tokens: int


@dataclass(frozen=True, slots=True)
class _Pace:
    """Prefill and decode of one request alone, and what the machine could have done."""

    speed: CpuSpeed
    prefill: float
    decode: float


def run(options: BenchOptions) -> BenchResult:
    """Speed-up and sameness by speculation, throughput at 16 ÷ 1, fractions of the roofline."""
    size = _Size(3, 48, 24, 512) if options.quick else _Size(6, 64, 64, 1024)
    changes: dict[str, Any] = {"max_num_seqs": 16}
    if "eager" in options.extra:
        changes["eager"] = options.extra["eager"] != "false"
    with running_engine(options, "decode", speculation="off", **changes) as engine:
        plain = _copy(options, engine, size)
        loads = _loads(engine, size)
        pace = _pace(options, engine, size)
        config = {"eager": engine.settings.eager, "num_answers": len(plain), **_as_config(size)}
    with running_engine(options, "decode", speculation="ngram", **changes) as engine:
        guessed = _copy(options, engine, size)
    return _result(plain, guessed, loads, pace, config)


def _copy(options: BenchOptions, engine: OwnEngine, size: _Size) -> list[Timed]:
    """Greedy answers that copy; the first prompt is asked once before, which warms the engine."""
    spec = find_model(engine.settings.model, role="generator", revision=engine.settings.revision)
    tokenizer = HuggingFaceTokenizer(model_path(spec, options.model_dir))
    prompts = copying_prompts(tokenizer, size.copied_answers)
    generate(engine.client, prompts[0], max_tokens=8)
    return [generate(engine.client, prompt, max_tokens=size.answer_tokens) for prompt in prompts]


def _loads(engine: OwnEngine, size: _Size) -> list[Load]:
    prefix = random_prompt(_PREFIX_TOKENS, seed=1)
    generate(engine.client, prefix, max_tokens=1)  # from here on it is cached
    return [
        run_load(
            engine.client,
            [[*prefix, *random_prompt(_QUESTION_TOKENS, seed=100 * c + i)] for i in range(c)],
            num_tokens=size.load_tokens,
            ttft_limit=TTFT_LIMIT_SECONDS,
        )
        for c in _CONCURRENCIES
    ]


def _pace(options: BenchOptions, engine: OwnEngine, size: _Size) -> _Pace:
    spec = find_model(engine.settings.model, role="generator", revision=engine.settings.revision)
    folder = model_path(spec, options.model_dir)
    shape, dtype = shape_of(read_config(folder)), cpu_dtype(detect_machine())
    answers = [
        generate(
            engine.client,
            random_prompt(size.prefill_tokens, seed=7 + i),
            max_tokens=size.load_tokens,
            forced=True,
        )
        for i in range(2)
    ]
    speed = measure_speed()
    roofline = Roofline(
        shape=shape,
        device=speed.device(),
        weight_bytes=weight_bytes(shape, dtype=dtype, stored=read_stored_weights(folder)),
        kv_dtype=dtype,
        is_8bit=bytes_of(dtype) == 1,
    )
    context = size.prefill_tokens + size.load_tokens // 2
    return _Pace(
        speed=speed,
        prefill=roofline.prefill_seconds(size.prefill_tokens) / min(a.ttft_seconds for a in answers),
        decode=roofline.decode_seconds(context) / min(a.tpot_seconds for a in answers),
    )


def _result(
    plain: Sequence[Timed],
    guessed: Sequence[Timed],
    loads: Sequence[Load],
    pace: _Pace,
    config: dict[str, Any],
) -> BenchResult:
    one, many = loads[0], loads[-1]
    ratios = [a.tpot_seconds / b.tpot_seconds for a, b in zip(plain, guessed, strict=True)]
    same = [a.text == b.text for a, b in zip(plain, guessed, strict=True)]
    return BenchResult(
        name="decode",
        config=config | {"prefix_tokens": _PREFIX_TOKENS, "ttft_limit_seconds": TTFT_LIMIT_SECONDS},
        figures={
            "speculation_speedup": median(ratios),
            "identical_text": all(same),
            "throughput_16_vs_1": many.tokens_per_second / one.tokens_per_second,
            "roofline_fraction_prefill": pace.prefill,
            "roofline_fraction_decode": pace.decode,
        },
        details={
            "tpot_seconds": {
                "plain": [answer.tpot_seconds for answer in plain],
                "speculating": [answer.tpot_seconds for answer in guessed],
            },
            "identical": same,
            "completion_tokens": [answer.usage.completion_tokens for answer in plain],
            "loads": [
                {
                    "concurrency": load.concurrency,
                    "tokens_per_second": load.tokens_per_second,
                    "goodput_per_second": load.goodput,
                    "ttft_seconds": list(load.ttft_seconds),
                    "cached_share": load.cached_share,
                }
                for load in loads
            ],
            "machine": {
                "flops": pace.speed.flops,
                "bytes_per_second": pace.speed.bytes_per_second,
            },
        },
        tables=[_copy_table(plain, guessed), _load_table(loads)],
    )


def _copy_table(plain: Sequence[Timed], guessed: Sequence[Timed]) -> BenchTable:
    return BenchTable(
        "answers that copy their context, milliseconds a token",
        ("answer", "tokens", "plain", "speculating", "the same"),
        [
            (
                str(number),
                str(a.usage.completion_tokens),
                f"{a.tpot_seconds * 1000:.1f}",
                f"{b.tpot_seconds * 1000:.1f}",
                "yes" if a.text == b.text else "no",
            )
            for number, (a, b) in enumerate(zip(plain, guessed, strict=True), start=1)
        ],
    )


def _load_table(loads: Sequence[Load]) -> BenchTable:
    return BenchTable(
        f"cached prefixes, first word within {TTFT_LIMIT_SECONDS:g} s",
        ("answers at once", "tokens/s", "in time/s", "mean TTFT s"),
        [
            (
                str(load.concurrency),
                f"{load.tokens_per_second:.1f}",
                f"{load.goodput:.2f}",
                f"{fmean(load.ttft_seconds):.2f}",
            )
            for load in loads
        ],
    )


def _as_config(size: _Size) -> dict[str, int]:
    return {
        "answer_tokens": size.answer_tokens,
        "load_tokens": size.load_tokens,
        "prefill_tokens": size.prefill_tokens,
    }
