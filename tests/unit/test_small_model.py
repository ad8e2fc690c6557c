"""The small model over a generator."""

from __future__ import annotations

import pytest

from core.errors import EngineUnavailable
from core.usage import TokenUsage
from inference.protocols import OutputConstraint
from inference.small_model import ChatSmallModel
from tests.pipeline_fixtures import ScriptedGenerator, WordTokenizer


def ask(generator: ScriptedGenerator) -> ChatSmallModel:
    return ChatSmallModel(generator, WordTokenizer())


def test_a_reply_says_what_it_used_and_goes_out_under_the_tenants_salt() -> None:
    generator = ScriptedGenerator(text="[1, 2]")
    reply = ask(generator).complete(
        instructions="选择。", text="文本", max_tokens=9, json_schema={"type": "array"}, cache_salt="ten_1"
    )
    assert reply.text == "[1, 2]"
    assert reply.use.usage == TokenUsage(8, 32, 2)
    request = generator.requests[0]
    assert (request.cache_salt, request.constraint) == ("ten_1", OutputConstraint("json", {"type": "array"}))
    assert request.sampling.max_tokens == 9


def test_what_a_call_burned_before_it_died_is_in_the_error() -> None:
    failure = EngineUnavailable("It died.", remedy="Wait.")
    model = ask(ScriptedGenerator(text="one two three", failure=failure, fail_after=2))
    with pytest.raises(EngineUnavailable) as caught:
        model.complete(instructions="a", text="b", max_tokens=9)
    (use,) = caught.value.uses
    assert (use.model, use.usage.completion_tokens) == ("scripted", 2)


def test_a_call_that_never_began_burned_nothing() -> None:
    failure = EngineUnavailable("It is not there.", remedy="Wait.")
    model = ask(ScriptedGenerator(text="one", failure=failure, fail_after=0))
    with pytest.raises(EngineUnavailable) as caught:
        model.complete(instructions="a", text="b", max_tokens=9)
    assert caught.value.uses == ()
