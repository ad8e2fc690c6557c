"""Sampling controls as an engine takes them, and which of them an endpoint can be held to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from core.errors import EngineIncapable
from inference.protocols import BASE_CONTROLS, EngineInfo, SamplingParameters

LOGITS_PROCESSORS = ("inference.no_repeat_ngram:NoRepeatNgram", "inference.banned_words:BannedWords")
"""What vLLM is started with (`--logits-processors`) so that it can ban n-grams and words."""

BANS = frozenset({"no_repeat_ngram_size", "bad_words"})
"""Controls that these processors hold an engine to."""

MAX_BEAMS = 10
"""vLLM asks for two log-probabilities a beam, and gives at most 20."""

LOST_TO_SPECULATION = frozenset({"min_p", "logit_bias"}) | BANS
"""Of a speculating vLLM: refused or, before 0.32, dropped without a word."""

Probe = tuple[Mapping[str, Any], Mapping[str, Any]]
"""Fields that an endpoint must refuse, and fields that it must take then."""

PROBES: Mapping[str, Probe] = {
    "top_k": ({"top_k": "x"}, {"top_k": 5}),
    # Greedy decoding takes min_p back, and with it the refusal: so not at temperature 0.
    "min_p": ({"min_p": "x"}, {"min_p": 0.1, "temperature": 1.0}),
    "seed": ({"seed": "x"}, {"seed": 1}),
    "repetition_penalty": ({"repetition_penalty": "x"}, {"repetition_penalty": 1.1}),
    "presence_penalty": ({"presence_penalty": "x"}, {"presence_penalty": 0.1}),
    "frequency_penalty": ({"frequency_penalty": "x"}, {"frequency_penalty": 0.1}),
    "min_tokens": ({"min_tokens": "x"}, {"min_tokens": 1}),
    "logit_bias": ({"logit_bias": "x"}, {"logit_bias": {"10": 1.0}}),
    # vLLM's own field of this name lets words through; see `inference.banned_words`.
    "bad_words": ({"vllm_xargs": {"banned_words": "x"}}, {"vllm_xargs": {"banned_words": ["x"]}}),
    "no_repeat_ngram_size": (
        {"vllm_xargs": {"no_repeat_ngram_size": "x"}},
        {"vllm_xargs": {"no_repeat_ngram_size": 3}},
    ),
}
"""For each control whether an endpoint knows it."""

BEAM_PROBE: Probe = (
    {"use_beam_search": "x"},
    {"use_beam_search": True, "n": 2, "stream": False, "stream_options": None},
)
"""Apart from the others, for beams are not streamed."""

# Not asked for: a part of the protocol that every endpoint has, or no control.
_DEFAULTS = {field.name: field.default for field in fields(SamplingParameters) if field.name != "max_tokens"}
_WITH_BEAMS = "length_penalty"  # means nothing without them


def controls_on(sampling: SamplingParameters) -> tuple[str, ...]:
    """The controls that are on, in the order of `SamplingParameters`."""
    return tuple(
        name
        for name, default in _DEFAULTS.items()
        if name != _WITH_BEAMS and getattr(sampling, name) != default
    )


def beam_conflicts(sampling: SamplingParameters) -> tuple[str, ...]:
    """Controls that are on and that vLLM's beam search leaves out without a word.

    A seed is none: nothing is drawn.
    """
    return tuple(name for name in controls_on(sampling) if name not in ("beam_width", "seed"))


def unmet_controls(sampling: SamplingParameters, info: EngineInfo) -> tuple[str, ...]:
    """Those that are on and that the endpoint cannot be held to; none: it can serve the request."""
    return tuple(name for name in controls_on(sampling) if name not in BASE_CONTROLS | info.controls)


def require_controls(sampling: SamplingParameters, info: EngineInfo) -> None:
    """Nothing if the endpoint can be held to every control that is on.

    Raises:
        EngineIncapable: it cannot; the message says which, why, and what to do.
    """
    unmet = unmet_controls(sampling, info)
    if not unmet:
        return
    reason, remedy = _why(unmet, info)
    raise EngineIncapable(
        f"The endpoint that serves {info.model} cannot be held to {', '.join(unmet)}: {reason}.",
        remedy=remedy,
        controls=list(unmet),
    )


def _why(unmet: tuple[str, ...], info: EngineInfo) -> tuple[str, str]:
    leave_out = f"Leave {'it' if len(unmet) == 1 else 'them'} out"
    if info.speculates and LOST_TO_SPECULATION.issuperset(unmet):
        return (
            "it speculates, and a speculating vLLM does not apply such controls",
            f"{leave_out}, or start the engine without speculation.",
        )
    if BANS.issuperset(unmet):
        return (
            "its vLLM was started without the logits processors that see to it",
            f"{leave_out}, let Longleaf launch the engine, or start vLLM with "
            f"--logits-processors {' '.join(LOGITS_PROCESSORS)}.",
        )
    return "it ignores or refuses what is sent for that", f"{leave_out}, or use a vLLM."


def sampling_fields(sampling: SamplingParameters) -> dict[str, Any]:
    """The fields of a completion request that say how to sample; what is off is not sent."""
    always = {"temperature": sampling.temperature, "top_p": sampling.top_p}
    return merged_fields([always, *(_field(name, getattr(sampling, name)) for name in controls_on(sampling))])


def merged_fields(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The fields of all parts, a later one's over an earlier one's, and their `vllm_xargs` together."""
    merged: dict[str, Any] = {}
    arguments: dict[str, Any] = {}
    for part in parts:
        merged |= part
        arguments |= part.get("vllm_xargs", {})
    return merged | ({"vllm_xargs": arguments} if arguments else {})


def _field(name: str, value: Any) -> dict[str, Any]:
    match name:
        case "logit_bias":
            return {"logit_bias": {str(token_id): bias for token_id, bias in value}}
        case "no_repeat_ngram_size":
            return {"vllm_xargs": {"no_repeat_ngram_size": value}}
        case "beam_width":
            return {}  # see `inference.beam_search`
        case "bad_words":
            return {"vllm_xargs": {"banned_words": list(value)}}
        case "stop":
            return {"stop": list(value)}
        case _:
            return {name: value}
