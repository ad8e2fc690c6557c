"""A full engine: who waits, how long, and what the caller hears."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from api.problems import retry_headers
from core.cancellation import watching
from core.errors import EngineOverloaded, JobCancelled
from core.priority import BACKGROUND, INTERACTIVE, current_priority, working_at
from inference.admission import AdmissionPolicy, pause_seconds
from inference.completions_client import CompletionsClient
from inference.protocols import GenerationRequest, SamplingParameters
from tests.engine_double import MODEL, EngineDouble, running_double

FULL = (503, "The engine is currently busy and cannot accept new requests.")
REQUEST = GenerationRequest([1, 2, 3], SamplingParameters(max_tokens=3))


@pytest.fixture
def double() -> Iterator[EngineDouble]:
    with running_double() as double:
        yield double


def client(double: EngineDouble, *, wait: float = 5.0, background: float = 5.0) -> CompletionsClient:
    client = CompletionsClient(double.url, model=MODEL, admission=AdmissionPolicy(wait, background))
    client.info()
    return client


def ask(client: CompletionsClient) -> int:
    with client.stream(REQUEST) as deltas:
        return len(list(deltas))


def test_a_place_that_is_free_soon_is_waited_for(double: EngineDouble) -> None:
    asking = client(double)
    double.behaviour.refusals = [FULL, FULL]
    assert ask(asking) > 0


def test_a_queue_that_stays_full_is_told_within_the_wait(double: EngineDouble) -> None:
    asking = client(double, wait=0.5)
    double.behaviour.refusals = [FULL] * 100
    started = time.monotonic()
    with pytest.raises(EngineOverloaded, match="full"):
        ask(asking)
    assert time.monotonic() - started < 2.0


def test_background_work_waits_longer_than_a_question(double: EngineDouble) -> None:
    asking = client(double, wait=0.0, background=5.0)
    double.behaviour.refusals = [FULL]
    with pytest.raises(EngineOverloaded):
        ask(asking)
    double.behaviour.refusals = [FULL]
    with working_at(BACKGROUND):
        assert ask(asking) > 0


def test_a_cancelled_job_does_not_wait_on_for_a_full_engine(double: EngineDouble) -> None:
    asking = client(double, wait=60.0)
    double.behaviour.refusals = [FULL] * 1000

    def cancelled() -> None:
        raise JobCancelled("The caller asked for it to stop.")

    started = time.monotonic()
    with watching(cancelled), pytest.raises(JobCancelled):
        ask(asking)
    assert time.monotonic() - started < 2.0


def test_background_work_says_so_to_the_engine(double: EngineDouble) -> None:
    asking = client(double)
    ask(asking)
    assert "priority" not in double.behaviour.completion_bodies[-1]
    with working_at(BACKGROUND):
        ask(asking)
    assert double.behaviour.completion_bodies[-1]["priority"] == BACKGROUND


def test_priorities_end_with_their_block() -> None:
    assert current_priority() == INTERACTIVE
    with working_at(BACKGROUND):
        assert current_priority() == BACKGROUND
    assert current_priority() == INTERACTIVE


def test_pauses_grow_and_stay_short() -> None:
    assert 0.1 < pause_seconds(1) < 0.4
    assert 3.0 <= pause_seconds(20) <= 5.0


def test_a_caller_hears_when_to_come_back() -> None:
    assert retry_headers("engine_overloaded") == {"Retry-After": "2"}
    assert retry_headers("too_long") == {}
