"""How an answer is sampled: what a caller may say, presets, and what contradicts what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from inference.controls import beam_conflicts, controls_on
from inference.protocols import SamplingParameters

Preset = Literal["deterministic", "precise", "balanced", "general", "creative", "long_form"]
Length = Literal["short", "paragraph", "long"]

LENGTH_TOKENS: Mapping[Length, int] = {"short": 100, "paragraph": 300, "long": 1000}
PRESETS: Mapping[Preset, Mapping[str, Any]] = {
    "deterministic": {"temperature": 0.0},
    "precise": {"temperature": 0.2},
    "balanced": {"temperature": 0.5, "top_p": 0.9},
    "general": {"temperature": 0.7, "top_p": 0.9},
    "creative": {"temperature": 0.9, "top_p": 0.9},
    # A long text of a small model goes in circles without a penalty.
    "long_form": {
        "temperature": 0.7,
        "top_p": 0.9,
        "repetition_penalty": 1.15,
        "max_tokens": LENGTH_TOKENS["long"],
    },
}
_TRUNCATIONS: Mapping[str, Any] = {"top_p": 1.0, "top_k": 0, "min_p": 0.0}


@dataclass(frozen=True, slots=True)
class SamplingChoice:
    """What a caller says of sampling; None: as the preset has it, else off.

    `preset` and `length` are a base that every value given overrides; without a preset decoding is
    greedy. `n` samples are drawn, and the answer is what most of them say.
    """

    preset: Preset | None = None
    length: Length | None = None
    max_tokens: int | None = None
    min_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    n: int | None = None
    logit_bias: tuple[tuple[int, float], ...] = ()
    bad_words: tuple[str, ...] = ()
    beam_width: int | None = None
    length_penalty: float | None = None

    def as_fields(self) -> dict[str, Any]:
        """The choice's own fields, for a larger one that has them too."""
        return {field.name: getattr(self, field.name) for field in fields(SamplingChoice)}

    @classmethod
    def fields_of_json(cls, stored: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of a choice that was stored as JSON, which has lists for tuples."""
        given = {known.name: stored[known.name] for known in fields(SamplingChoice) if known.name in stored}
        return given | {
            "stop": tuple(stored.get("stop") or ()),
            "bad_words": tuple(stored.get("bad_words") or ()),
            "logit_bias": tuple((int(token), float(bias)) for token, bias in stored.get("logit_bias") or ()),
        }


def given_controls(choice: SamplingChoice) -> tuple[str, ...]:
    """Names of what the caller set to anything but what it is without."""
    names = [field.name for field in fields(SamplingChoice)]
    off = {"temperature": 0.0, "n": 1} | {
        field.name: field.default for field in fields(SamplingParameters) if field.name != "max_tokens"
    }
    return tuple(
        name
        for name in names
        if (value := getattr(choice, name)) not in (None, ()) and value != off.get(name)
    )


def sampling_of(choice: SamplingChoice, *, default_max_tokens: int) -> SamplingParameters:
    """What the engine is asked for: the preset's values, and over them those given.

    What a preset would cut off (`top_p`) is left out where the caller wants greedy decoding. Without
    a limit of its own, an answer may be as long as its `min_tokens` at least.
    """
    base = dict(PRESETS[choice.preset]) if choice.preset else {}
    if choice.length:
        base["max_tokens"] = LENGTH_TOKENS[choice.length]
    base.setdefault("max_tokens", max(default_max_tokens, choice.min_tokens or 0))
    known = {field.name for field in fields(SamplingParameters)}
    given = {
        name: value
        for name in known
        if name in SamplingChoice.__dataclass_fields__
        and (value := getattr(choice, name)) is not None
        and value != ()
    }
    sampling = SamplingParameters(**base | given)
    if sampling.top_k == -1:  # vLLM's and transformers' other word for 0
        sampling = replace(sampling, top_k=0)
    return replace(sampling, **_TRUNCATIONS) if sampling.temperature == 0 else sampling


def sampling_json(choice: SamplingChoice, sampling: SamplingParameters) -> dict[str, Any]:
    """What was applied, for `Answer.steps`: temperature and limit always, the rest where it is on."""
    names = dict.fromkeys(("temperature", "max_tokens", *controls_on(sampling)))
    if sampling.beam_width > 1:
        names["length_penalty"] = None
    applied = {name: getattr(sampling, name) for name in names}
    if sampling.logit_bias:
        applied["logit_bias"] = {str(token): bias for token, bias in sampling.logit_bias}
    presets = {"preset": choice.preset, "length": choice.length}
    several = {"n": choice.n} if (choice.n or 1) > 1 else {}
    return {name: preset for name, preset in presets.items() if preset} | several | applied


def contradictions(choice: SamplingChoice) -> tuple[str, ...]:
    """What the caller says that cannot all be had, in words with the numbers; none: it can."""
    # Any default will do: where neither preset nor caller says max_tokens, min_tokens raises it.
    sampling = sampling_of(choice, default_max_tokens=1)
    return (*_of_length(choice, sampling), *_of_greedy(choice, sampling), *_of_beams(choice, sampling))


def _of_length(choice: SamplingChoice, sampling: SamplingParameters) -> Iterator[str]:
    if sampling.min_tokens > sampling.max_tokens:
        by = ""
        if choice.max_tokens is None:
            by = f" by length `{choice.length}`" if choice.length else f" by preset `{choice.preset}`"
        yield f"min_tokens is {sampling.min_tokens}, but max_tokens is {sampling.max_tokens}{by}"


def _of_greedy(choice: SamplingChoice, sampling: SamplingParameters) -> Iterator[str]:
    if sampling.temperature > 0:
        return
    above = "set a temperature above 0, or a preset such as `balanced`"
    for name, off in _TRUNCATIONS.items():
        value = getattr(choice, name)
        if value is not None and value != off and (name, value) != ("top_k", -1):
            yield f"{name} is {value:g}, but at temperature 0 the likeliest token is always taken: {above}"
    if (choice.n or 1) > 1 and sampling.beam_width == 1:
        yield f"n is {choice.n}, but at temperature 0 all samples are the same: {above}"


def _of_beams(choice: SamplingChoice, sampling: SamplingParameters) -> Iterator[str]:
    if sampling.beam_width == 1:
        if sampling.length_penalty != 1:
            yield f"length_penalty is {sampling.length_penalty:g}, but without beam_width nothing is penalized"
        return
    beams = f"beam_width is {sampling.beam_width}, but beam search"
    if conflicts := beam_conflicts(sampling):
        preset = f" (by preset `{choice.preset}`)" if choice.preset else ""
        yield f"{beams} takes max_tokens and length_penalty only, not {', '.join(conflicts)}{preset}"
    if (choice.n or 1) > 1:
        yield f"{beams} gives one answer, not n={choice.n}"


assert set(get_args(Preset)) == set(PRESETS)
