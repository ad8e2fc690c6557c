"""What a caller may say of sampling, and what the engine is asked for then."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from api.schemas.questions import Question
from generation.questions import QuestionParameters
from generation.sampling import (
    LENGTH_TOKENS,
    PRESETS,
    SamplingChoice,
    contradictions,
    given_controls,
    sampling_json,
    sampling_of,
)
from inference.protocols import SamplingParameters


def asked(**body: Any) -> QuestionParameters:
    return Question.model_validate({"question": "长江有多长？", **body}).parameters()


def sampling(**body: Any) -> SamplingParameters:
    return sampling_of(asked(**body), default_max_tokens=300)


def test_without_a_word_an_answer_is_greedy_and_of_the_default_length() -> None:
    assert sampling() == SamplingParameters(max_tokens=300)
    assert sampling_json(asked(), sampling()) == {"temperature": 0.0, "max_tokens": 300}


@pytest.mark.parametrize(
    ("preset", "temperature", "top_p", "repetition_penalty"),
    [
        ("deterministic", 0.0, 1.0, 1.0),
        ("precise", 0.2, 1.0, 1.0),
        ("balanced", 0.5, 0.9, 1.0),
        ("general", 0.7, 0.9, 1.0),
        ("creative", 0.9, 0.9, 1.0),
        ("long_form", 0.7, 0.9, 1.15),
    ],
)
def test_presets_have_the_values_that_practitioners_use(
    preset: str, temperature: float, top_p: float, repetition_penalty: float
) -> None:
    assert preset in PRESETS
    found = sampling(preset=preset)
    assert (found.temperature, found.top_p, found.repetition_penalty) == (
        temperature,
        top_p,
        repetition_penalty,
    )


@pytest.mark.parametrize(
    ("body", "max_tokens"),
    [
        ({"length": "short"}, 100),
        ({"length": "paragraph"}, 300),
        ({"length": "long"}, 1000),
        ({"preset": "long_form"}, 1000),
        ({"preset": "long_form", "length": "short"}, 100),
        ({"length": "long", "max_tokens": 7}, 7),
        ({"min_tokens": 400}, 400),
    ],
)
def test_a_length_is_a_limit_that_an_explicit_one_overrides(body: dict[str, Any], max_tokens: int) -> None:
    assert sampling(**body).max_tokens == max_tokens
    assert set(LENGTH_TOKENS.values()) == {100, 300, 1000}


def test_what_is_given_overrides_the_preset() -> None:
    found = sampling(preset="long_form", temperature=0.3, repetition_penalty=1.0, top_k=-1, seed=-7)
    assert (found.temperature, found.top_p, found.repetition_penalty) == (0.3, 0.9, 1.0)
    assert (found.top_k, found.seed) == (0, -7)


def test_greedy_decoding_drops_what_a_preset_would_cut_off() -> None:
    assert sampling(preset="balanced", temperature=0) == SamplingParameters(max_tokens=300)


def test_every_control_reaches_the_engine_as_it_was_given() -> None:
    body: dict[str, Any] = {
        "max_tokens": 50,
        "min_tokens": 5,
        "temperature": 0.8,
        "top_p": 0.95,
        "top_k": 40,
        "min_p": 0.05,
        "repetition_penalty": 1.1,
        "presence_penalty": -0.5,
        "frequency_penalty": 0.5,
        "no_repeat_ngram_size": 3,
        "seed": 7,
        "stop": ["。"],
        "bad_words": ["坏"],
    }
    found = sampling(**body, logit_bias={"12": -100, "7": 1.5})
    assert found.logit_bias == ((12, -100.0), (7, 1.5))
    for name, value in body.items():
        assert getattr(found, name) == (tuple(value) if isinstance(value, list) else value), name
    beams = sampling(beam_width=4, length_penalty=1.5)
    assert (beams.beam_width, beams.length_penalty) == (4, 1.5)


def test_parameters_survive_storage() -> None:
    given = asked(preset="creative", n=3, logit_bias={"12": 1}, bad_words=["坏"], stop=["。"])
    assert QuestionParameters.of_json(json.loads(json.dumps(given.as_json()))) == given
    assert QuestionParameters.of_json({"max_tokens": 9}) == QuestionParameters(max_tokens=9)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"min_tokens": 400, "max_tokens": 300}, "min_tokens is 400, but max_tokens is 300"),
        ({"min_tokens": 400, "length": "paragraph"}, "max_tokens is 300 by length `paragraph`"),
        ({"min_tokens": 1001, "preset": "long_form"}, "max_tokens is 1000 by preset `long_form`"),
        ({"top_p": 0.9}, "top_p is 0.9, but at temperature 0"),
        ({"top_k": 5, "temperature": 0}, "top_k is 5, but at temperature 0"),
        ({"min_p": 0.1, "preset": "deterministic"}, "min_p is 0.1, but at temperature 0"),
        ({"n": 5}, "n is 5, but at temperature 0 all samples are the same"),
        ({"beam_width": 4, "preset": "creative"}, "not temperature, top_p (by preset `creative`)"),
        ({"beam_width": 4, "stop": ["x"]}, "beam_width is 4, but beam search takes max_tokens and"),
        ({"beam_width": 4, "n": 2}, "gives one answer, not n=2"),
        ({"length_penalty": 2}, "length_penalty is 2, but without beam_width"),
        ({"mode": "extractive", "temperature": 0.5, "seed": 1}, "temperature, seed can have no effect"),
        ({"must_include": ["a"], "n": 3, "preset": "creative"}, "n is 3, but an answer with `format`"),
        ({"must_include": ["a"], "beam_width": 3}, "beam_width is 3, but an answer with `format`"),
        ({"mode": "extractive", "max_tokens": 10}, "max_tokens can have no effect"),
    ],
)
def test_contradictions_are_refused_with_the_numbers(body: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        asked(**body)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        {"mode": "extractive", "n": 1, "temperature": 0, "top_p": 1, "beam_width": 1},
        {"preset": "balanced", "temperature": 0, "top_k": -1},
        {"beam_width": 4, "length_penalty": 2, "seed": 1, "max_tokens": 30},
        {"n": 16, "preset": "creative", "min_tokens": 5},
    ],
)
def test_what_changes_nothing_contradicts_nothing(body: dict[str, Any]) -> None:
    assert contradictions(asked(**body)) == ()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": 0.001}, "temperature"),
        ({"temperature": "0.5"}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_k": True}, "top_k"),
        ({"top_k": -2}, "top_k"),
        ({"min_p": 1.1}, "min_p"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"presence_penalty": 2.1}, "presence_penalty"),
        ({"frequency_penalty": -2.1}, "frequency_penalty"),
        ({"no_repeat_ngram_size": -1}, "no_repeat_ngram_size"),
        ({"no_repeat_ngram_size": 2.5}, "no_repeat_ngram_size"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**63}, "seed"),
        ({"n": 0}, "n"),
        ({"n": 17}, "n"),
        ({"logit_bias": {"the": 1}}, "logit_bias"),
        ({"logit_bias": {"5": 1, "05": 2}}, "logit_bias"),
        ({"logit_bias": {"5": 101}}, "logit_bias"),
        ({"logit_bias": [1]}, "logit_bias"),
        ({"bad_words": [" "]}, "bad_words"),
        ({"beam_width": 11}, "beam_width"),
        ({"length_penalty": float("inf"), "beam_width": 2}, "length_penalty"),
        ({"preset": "wild"}, "preset"),
        ({"length": "endless"}, "length"),
    ],
)
def test_a_value_out_of_range_or_of_the_wrong_type_is_refused_by_name(
    body: dict[str, Any], field: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        asked(**body)
    assert {error["loc"][0] for error in caught.value.errors()} == {field}


def test_only_what_the_caller_set_counts_as_given() -> None:
    assert given_controls(SamplingChoice(temperature=0.0, n=1, beam_width=1, top_p=1.0)) == ()
    assert given_controls(SamplingChoice(preset="creative", stop=("。",))) == ("preset", "stop")
