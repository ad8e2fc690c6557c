"""Controls reach engines that can be held to them, and are refused elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from core.errors import EngineIncapable, EngineUnavailable, InvalidInput
from core.usage import TokenUsage
from inference.completions_client import CompletionsClient
from inference.controls import LOST_TO_SPECULATION, PROBES, controls_on, unmet_controls
from inference.protocols import (
    BASE_CONTROLS,
    GenerationDelta,
    GenerationRequest,
    OutputConstraint,
    SamplingParameters,
)
from tests.engine_double import ANSWER, MODEL, EngineDouble, running_double

ALL: dict[str, Any] = {
    "temperature": 0.8,
    "top_p": 0.9,
    "top_k": 40,
    "min_p": 0.05,
    "repetition_penalty": 1.1,
    "presence_penalty": 0.5,
    "frequency_penalty": -0.5,
    "no_repeat_ngram_size": 3,
    "seed": 7,
    "stop": ("。",),
    "min_tokens": 2,
    "logit_bias": ((12, -100.0),),
    "bad_words": ("坏",),
}


@pytest.fixture
def double() -> Iterator[EngineDouble]:
    with running_double() as server:
        yield server


def generate(
    double: EngineDouble, constraint: OutputConstraint | None = None, **controls: Any
) -> list[GenerationDelta]:
    client = CompletionsClient(double.url, model=MODEL)
    try:
        sampling = SamplingParameters(max_tokens=5, **controls)
        with client.stream(GenerationRequest((1, 2, 3), sampling, constraint=constraint)) as deltas:
            return list(deltas)
    finally:
        client.close()


def test_every_control_is_sent_in_the_engine_s_words(double: EngineDouble) -> None:
    generate(double, **ALL)
    body = double.behaviour.completion_bodies[-1]
    assert body["logit_bias"] == {"12": -100.0}
    assert body["vllm_xargs"] == {"no_repeat_ngram_size": 3, "banned_words": ["坏"]}
    assert body["stop"] == ["。"]
    for name in set(ALL) - {"logit_bias", "no_repeat_ngram_size", "stop", "bad_words"}:
        assert body[name] == ALL[name], name


def test_what_is_off_is_not_sent(double: EngineDouble) -> None:
    generate(double)
    assert not (PROBES.keys() | {"vllm_xargs", "stop"}) & double.behaviour.completion_bodies[-1].keys()


@pytest.mark.parametrize("name", [name for name in ALL if name not in BASE_CONTROLS])
def test_a_control_that_the_endpoint_would_ignore_is_refused_with_reason_and_remedy(
    double: EngineDouble, name: str
) -> None:
    double.behaviour.knows_extensions = False
    with pytest.raises(EngineIncapable, match=rf"cannot be held to {name}: .*Leave it out") as caught:
        generate(double, **{name: ALL[name]})
    assert caught.value.context["controls"] == [name]


def test_an_endpoint_that_ignores_all_else_still_takes_the_protocol_s_own(double: EngineDouble) -> None:
    double.behaviour.knows_extensions = False
    generate(double, temperature=0.5, top_p=0.9, stop=("。",))
    double.behaviour.is_strict = True
    generate(double, temperature=0.5, top_p=0.9, stop=("。",))


@pytest.mark.parametrize("name", sorted(LOST_TO_SPECULATION))
def test_controls_lost_to_speculation_are_refused_where_the_engine_speculates(
    double: EngineDouble, name: str
) -> None:
    double.behaviour.speculates = True
    with pytest.raises(EngineIncapable, match=r"it speculates.*start the engine without speculation"):
        generate(double, **{name: ALL[name]})
    generate(double, top_k=5, temperature=1.0, presence_penalty=1.0)  # these hold all the same


def test_the_engine_for_a_request_can_be_chosen_by_what_it_lacks(double: EngineDouble) -> None:
    double.behaviour.speculates = True
    client = CompletionsClient(double.url, model=MODEL)
    sampling = SamplingParameters(max_tokens=5, **ALL)
    assert set(unmet_controls(sampling, client.info())) == LOST_TO_SPECULATION
    assert set(controls_on(sampling)) == set(ALL)
    client.close()


# ---- beams -------------------------------------------------------------------------------


def test_beams_come_in_one_piece_and_are_counted_as_the_engine_counts(double: EngineDouble) -> None:
    deltas = generate(double, beam_width=4, length_penalty=1.5)
    body = double.behaviour.completion_bodies[-1]
    assert (body["use_beam_search"], body["n"], body["length_penalty"]) == (True, 4, 1.5)
    assert not {"stream", "stream_options", "repetition_detection"} & body.keys()
    assert "".join(delta.text for delta in deltas) == ANSWER[:5]
    assert (deltas[-1].finish_reason, deltas[-1].usage) == ("stop", TokenUsage(3, 0, 20))


def test_a_search_can_be_left_at_any_time_and_the_engine_sees_it(double: EngineDouble) -> None:
    client = CompletionsClient(double.url, model=MODEL)
    client.info()
    double.behaviour.beam_seconds = 30.0
    sampling = SamplingParameters(max_tokens=5, beam_width=2)
    with client.stream(GenerationRequest((1, 2, 3), sampling)) as deltas:
        assert next(deltas) == GenerationDelta("", TokenUsage(prompt_tokens=3))
    deadline = time.monotonic() + 5
    while not double.behaviour.num_broken_off:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    client.close()


def test_beams_refuse_what_they_would_leave_out(double: EngineDouble) -> None:
    with pytest.raises(InvalidInput, match="does not take temperature, stop"):
        generate(double, beam_width=2, temperature=0.5, stop=("。",))
    with pytest.raises(EngineIncapable, match="cannot be held to a form"):
        generate(double, OutputConstraint("choice", ["a"]), beam_width=2)
    generate(double, beam_width=2, seed=7)  # nothing is drawn, so the same seed gives the same


def test_an_engine_that_fails_over_beams_is_unavailable(double: EngineDouble) -> None:
    client = CompletionsClient(double.url, model=MODEL)
    client.info()
    double.behaviour.refusals = [(500, "EngineCore encountered an issue.")]
    sampling = SamplingParameters(max_tokens=5, beam_width=2)
    with pytest.raises(EngineUnavailable), client.stream(GenerationRequest((1,), sampling)) as deltas:
        list(deltas)
    client.close()


@pytest.mark.parametrize("name", sorted(LOST_TO_SPECULATION))
def test_a_vllm_of_ours_keeps_every_control_while_it_speculates(double: EngineDouble, name: str) -> None:
    double.behaviour.speculates = double.behaviour.keeps_controls = True
    info = CompletionsClient(double.url, model=MODEL).info()
    assert info.speculates
    assert name in info.controls
