"""A generator whose prefix cache is followed."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from core.errors import EngineIncapable, EngineUnavailable
from core.request_journal import journaling
from core.usage import TokenUsage
from inference.engine_metrics import EngineCache
from inference.engine_pool import KnowsPrefixes
from inference.protocols import GenerationRequest, SamplingParameters
from inference.resident_prefixes import CacheGeometry
from inference.tracked_generator import ASSUMED_GEOMETRY, TrackedGenerator
from tests.pipeline_fixtures import ScriptedGenerator

REQUEST = GenerationRequest(range(100), SamplingParameters(max_tokens=9), cache_salt="t")


@dataclass
class TellingGenerator(ScriptedGenerator):
    """Of an engine with 100 blocks of 32 tokens; `refusal` is what it says when asked."""

    refusal: Exception | None = None

    def engine_cache(self) -> EngineCache | None:
        if self.refusal is not None:
            raise self.refusal
        return EngineCache(num_blocks=100, block_tokens=32)


def tracked(scripted: ScriptedGenerator) -> TrackedGenerator:
    return TrackedGenerator(scripted)


def read_all(generator: TrackedGenerator) -> None:
    with generator.stream(REQUEST) as deltas:
        list(deltas)


def test_a_prompt_that_was_answered_is_known_to_be_cached_for_its_tenant() -> None:
    generator = tracked(TellingGenerator(text="one two three"))
    read_all(generator)
    assert generator.prefixes.num_cached("t", range(100)) == 96
    assert generator.prefixes.num_cached("u", range(100)) == 0


def test_one_that_failed_before_its_first_token_is_not() -> None:
    generator = tracked(TellingGenerator(text="one", failure=EngineUnavailable("It died.")))
    with pytest.raises(EngineUnavailable):
        read_all(generator)
    assert generator.prefixes.num_expected("t", range(100)) == 0


def test_one_broken_off_later_is_though_its_cached_tokens_were_never_told() -> None:
    scripted = TellingGenerator(text="one two three")
    generator = tracked(scripted)
    read_all(generator)
    with generator.stream(REQUEST) as deltas:
        next(deltas)
    assert generator.prefixes.num_cached("t", range(100)) == 96


def test_an_engine_that_does_not_tell_its_blocks_is_taken_for_vllms_default() -> None:
    assert tracked(ScriptedGenerator()).prefixes.geometry == ASSUMED_GEOMETRY
    refusing = TellingGenerator(refusal=EngineIncapable("No metrics."))
    assert tracked(refusing).prefixes.geometry == ASSUMED_GEOMETRY


def test_one_that_was_away_is_asked_again() -> None:
    engine = TellingGenerator(refusal=EngineUnavailable("It starts."))
    generator = tracked(engine)
    with pytest.raises(EngineUnavailable):
        _ = generator.prefixes
    engine.refusal = None
    assert generator.prefixes.geometry == CacheGeometry(32, 100)


def test_routing_hears_what_is_cached_or_about_to_be() -> None:
    generator = tracked(TellingGenerator(text="one two"))
    assert isinstance(generator, KnowsPrefixes)
    with generator.stream(REQUEST):
        assert generator.num_expected(REQUEST) == 96


@dataclass
class HeardJournal:
    """Its own only entry."""

    heard: list[object] = field(default_factory=list)

    def open(self, model: str, model_revision: str) -> HeardJournal:
        self.heard.append((model, model_revision))
        return self

    def used(self, usage: TokenUsage) -> None:
        self.heard.append(usage)

    def close(self) -> None:
        self.heard.append("closed")


def test_the_journal_hears_what_a_request_has_consumed_however_it_ends() -> None:
    generator, journal = tracked(TellingGenerator(text="one two")), HeardJournal()
    model = (generator.info().model, generator.info().revision)
    with journaling(journal):
        read_all(generator)
        with generator.stream(REQUEST) as deltas:
            next(deltas)
    first, second = TokenUsage(100, 32, 1), TokenUsage(100, 32, 2)
    assert journal.heard == [model, first, second, "closed", model, first, "closed"]
    read_all(generator)
    assert journal.heard[-1] == "closed", "what nobody keeps a journal of goes nowhere"
