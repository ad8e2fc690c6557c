from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StrictFloat, StrictInt

from api.schemas.base import Body, FreeText
from generation.sampling import Length, Preset, SamplingChoice
from inference.controls import MAX_BEAMS

MAX_SAMPLES = 16

_SEED_BOUND = 2**63
_MAX_TOKENS = 100_000
_MIN_TEMPERATURE = 0.01  # vLLM takes anything between for this, for it would divide by almost nothing


def _zero_or_sensible(temperature: float) -> float:
    if 0 < temperature < _MIN_TEMPERATURE:
        raise ValueError(f"it must be 0 or at least {_MIN_TEMPERATURE:g}: engines take no less for a number")
    return temperature


def _real_seed(seed: int) -> int:
    if seed == -1:
        raise ValueError("-1 means no seed to engines: leave it out, or take another")
    return seed


def _some_text(word: str) -> str:
    if not word.strip():
        raise ValueError("it must not be blank")
    return word


def _token_ids(biases: dict[str, float]) -> dict[str, float]:
    for key in biases:
        if not (key.isascii() and key.isdigit() and len(key) <= 9):
            raise ValueError(f"{key[:50]!r} is not a token id; to ban a word by its text, use bad_words")
    if len({int(key) for key in biases}) < len(biases):
        raise ValueError("it names a token twice")
    return biases


_StopText = Annotated[FreeText, Field(min_length=1, max_length=200)]
_BadWord = Annotated[FreeText, Field(min_length=1, max_length=200), AfterValidator(_some_text)]
_Bias = Annotated[StrictFloat, Field(ge=-100, le=100, allow_inf_nan=False)]


class SamplingOptions(Body):
    """How a written answer is sampled. What is left out is as the preset has it, else off."""

    preset: Preset | None = Field(
        None,
        description="A base that other values override. `deterministic`: temperature 0, the default. `precise`: "
        "0.2. `balanced`: 0.5. `general`: 0.7. `creative`: 0.9; the last three with top_p 0.9. "
        "`long_form`: as `general`, with repetition_penalty 1.15 and max_tokens 1,000.",
    )
    length: Length | None = Field(
        None, description="max_tokens in words. `short`: 100. `paragraph`: 300. `long`: 1,000."
    )
    max_tokens: StrictInt | None = Field(None, ge=1, le=_MAX_TOKENS, description="Most tokens to write.")
    min_tokens: StrictInt | None = Field(None, ge=0, le=_MAX_TOKENS, description="No end before so many.")
    temperature: Annotated[StrictFloat, AfterValidator(_zero_or_sensible)] | None = Field(
        None, ge=0, le=2, allow_inf_nan=False, description="0: greedy. Else 0.01 to 2."
    )
    top_p: StrictFloat | None = Field(None, gt=0, le=1, allow_inf_nan=False, description="Nucleus sampling.")
    top_k: StrictInt | None = Field(
        None, ge=-1, le=1_000_000, description="Only the so many likeliest tokens; 0 or -1: off."
    )
    min_p: StrictFloat | None = Field(
        None,
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="Only tokens at least so likely, as a share of the likeliest.",
    )
    repetition_penalty: StrictFloat | None = Field(
        None,
        gt=0,
        le=10,
        allow_inf_nan=False,
        description="Above 1: against tokens that the prompt, passages and all, or the answer has.",
    )
    presence_penalty: StrictFloat | None = Field(
        None, ge=-2, le=2, allow_inf_nan=False, description="Off the logit of what the answer has already."
    )
    frequency_penalty: StrictFloat | None = Field(
        None, ge=-2, le=2, allow_inf_nan=False, description="The same for each time that it has it."
    )
    no_repeat_ngram_size: StrictInt | None = Field(
        None, ge=0, le=100, description="No so many tokens come twice in the answer; 0: off."
    )
    seed: Annotated[StrictInt, AfterValidator(_real_seed)] | None = Field(
        None, ge=-_SEED_BOUND, lt=_SEED_BOUND, description="The same seed draws the same answer. Not -1."
    )
    stop: list[_StopText] = Field(default_factory=list, max_length=16, description="Texts that end it.")
    n: StrictInt | None = Field(
        None,
        ge=1,
        le=MAX_SAMPLES,
        description="Draw so many answers and give what most of them say, with how far they agree, in `samples`. "
        "Each is paid for. A stream then has the text once it is chosen.",
    )
    logit_bias: Annotated[dict[str, _Bias], AfterValidator(_token_ids)] = Field(
        default_factory=dict,
        max_length=300,
        description="By token id, from -100 (never) to 100 (always), added to the logit.",
    )
    bad_words: list[_BadWord] = Field(
        default_factory=list,
        max_length=100,
        description="Texts that the answer does not hold, not even inside of others: `art` bans `start` too, "
        "and ` art` with its blank does not. Case matters.",
    )
    beam_width: StrictInt | None = Field(
        None,
        ge=1,
        le=MAX_BEAMS,
        description="Search with so many beams, greedily; 1: off. It costs that many times the decoding, and a "
        "stream has the text at the end.",
    )
    length_penalty: StrictFloat | None = Field(
        None,
        ge=-5,
        le=5,
        allow_inf_nan=False,
        description="Of beams: above 1 longer answers, below shorter. The length counts the prompt too.",
    )

    def sampling_choice(self) -> SamplingChoice:
        return SamplingChoice(
            **self.model_dump(
                include=set(SamplingOptions.model_fields) - {"stop", "logit_bias", "bad_words"}
            ),
            stop=tuple(self.stop),
            logit_bias=tuple((int(token), bias) for token, bias in self.logit_bias.items()),
            bad_words=tuple(self.bad_words),
        )
