"""Settings of an engine that contradict each other or the machine: refused before it starts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from core.errors import Misconfigured, ModelUnavailable
from core.settings import EngineSettings
from inference.capacity.shape import read_config
from inference.service_profiles import EngineControls, Profile

# What a model published with a quantization says of itself in its config.json.
_PUBLISHED_AS = {
    "awq": ("awq", "auto_awq", "awq_marlin"),
    "gptq": ("gptq", "auto_gptq", "gptq_marlin"),
    "int8": ("compressed-tensors",),
    "fp8": ("fp8", "compressed-tensors"),
}


@dataclass(frozen=True, slots=True)
class CheckedMachine:
    """What the checks depend on."""

    profile: Profile
    has_avx512: bool
    has_bf16_tiles: bool


def check_engine(
    settings: EngineSettings, controls: EngineControls, machine: CheckedMachine, *, published: str = ""
) -> None:
    """Nothing if an engine can be started with the settings.

    Args:
        published: the quantization that the model's config.json names; empty: none.

    Raises:
        Misconfigured: it cannot; the message says which setting, why, and what to set instead.
    """
    for reason, remedy in _contradictions(settings, controls, machine, published):
        raise Misconfigured(reason, remedy=remedy)


def published_quantization(model_folder: Path) -> str:
    """What the model's config.json says it was quantized by; empty: nothing, or no such file."""
    try:
        return str((read_config(model_folder).get("quantization_config") or {}).get("quant_method", ""))
    except ModelUnavailable:
        return ""  # starting the engine will say it


def _contradictions(
    settings: EngineSettings, controls: EngineControls, machine: CheckedMachine, published: str
) -> Iterator[tuple[str, str]]:
    yield from _speculation(settings, controls, machine)
    yield from _admission(controls)
    yield from _numbers(settings, machine, published)
    if machine.profile == "cpu" and settings.disaggregation != "none":
        yield (
            "LONGLEAF_ENGINE__DISAGGREGATION needs GPUs: NIXL moves keys and values between them.",
            "Set it to none; on CPU one engine computes prompts and answers.",
        )


def _speculation(
    settings: EngineSettings, controls: EngineControls, machine: CheckedMachine
) -> Iterator[tuple[str, str]]:
    if controls.speculation == "draft" and not settings.draft_model:
        yield (
            "LONGLEAF_ENGINE__SPECULATION is draft, but no draft model is named.",
            "Name one in LONGLEAF_ENGINE__DRAFT_MODEL, or set the speculation to ngram.",
        )
    if controls.speculation == "draft" and machine.profile == "cpu":
        yield (
            "A draft model needs a GPU: on a CPU it takes the time that it would save.",
            "Set LONGLEAF_ENGINE__SPECULATION to ngram or off.",
        )
    if settings.draft_model and controls.speculation != "draft":
        yield (
            f"LONGLEAF_ENGINE__DRAFT_MODEL names {settings.draft_model}, but the speculation is "
            f"{controls.speculation}.",
            "Set LONGLEAF_ENGINE__SPECULATION to draft, or name no draft model.",
        )
    if settings.disaggregation != "none" and controls.speculation == "draft":
        yield (
            "A draft model's keys and values do not travel between disaggregated engines.",
            "Set LONGLEAF_ENGINE__SPECULATION to ngram or off.",
        )


def _admission(controls: EngineControls) -> Iterator[tuple[str, str]]:
    if 0 < controls.max_num_queued_reqs < controls.max_num_seqs:
        yield (
            f"At most {controls.max_num_queued_reqs} requests are admitted, but the engine is to run "
            f"{controls.max_num_seqs} at once: admission counts those that run.",
            "Raise LONGLEAF_ENGINE__MAX_NUM_QUEUED_REQS above MAX_NUM_SEQS, or set it to 0 for no limit.",
        )
    if controls.long_prefill_token_threshold > controls.max_num_batched_tokens:
        yield (
            f"A prompt may take {controls.long_prefill_token_threshold} tokens of a step that has "
            f"{controls.max_num_batched_tokens}.",
            "Lower LONGLEAF_ENGINE__LONG_PREFILL_TOKEN_THRESHOLD, or raise MAX_NUM_BATCHED_TOKENS.",
        )


def _numbers(settings: EngineSettings, machine: CheckedMachine, published: str) -> Iterator[tuple[str, str]]:
    wanted = settings.quantization
    if wanted != "none" and published and published not in _PUBLISHED_AS[wanted]:
        yield (
            f"LONGLEAF_ENGINE__QUANTIZATION is {wanted}, but the model was published with {published}.",
            "Set it to none: what a model was published with is used without being asked for.",
        )
    if wanted in ("int8", "awq", "gptq") and not published:
        yield (
            f"{wanted} is not made while loading: the model must have been published with it.",
            "Name a model whose config.json has that quantization, or use fp8 on a GPU.",
        )
    if machine.profile == "cpu":
        yield from _numbers_of_cpu(settings, machine)
    if settings.block_size is not None and machine.profile == "cpu" and settings.block_size % 32:
        yield (
            f"A block of {settings.block_size} tokens is slow on a CPU, whose kernels want multiples of 32.",
            "Set LONGLEAF_ENGINE__BLOCK_SIZE to 32, 64 or 128, or leave it empty.",
        )


def _numbers_of_cpu(settings: EngineSettings, machine: CheckedMachine) -> Iterator[tuple[str, str]]:
    if settings.quantization == "fp8" and not machine.has_bf16_tiles:
        yield (
            "FP8 weights on a CPU need AMX, which this one lacks.",
            "Use a model published in INT8 (W8A8), AWQ or GPTQ, or set LONGLEAF_ENGINE__QUANTIZATION to none.",
        )
    if settings.kv_cache_dtype == "fp8" and not (machine.has_avx512 or machine.has_bf16_tiles):
        yield (
            "An FP8 KV cache on a CPU needs AVX-512 or AMX, which this one lacks.",
            "Set LONGLEAF_ENGINE__KV_CACHE_DTYPE to auto.",
        )
    if settings.kv_cache_dtype in ("float16", "bfloat16"):
        yield (
            f"On a CPU keys and values have the model's own type, or fp8, and not {settings.kv_cache_dtype}.",
            "Set LONGLEAF_ENGINE__DTYPE to it, and LONGLEAF_ENGINE__KV_CACHE_DTYPE to auto.",
        )
