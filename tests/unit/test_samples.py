"""Several answers drawn side by side."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from core.cancellation import wait_watchfully
from core.errors import EngineUnavailable
from core.priority import BACKGROUND, current_priority, working_at
from core.usage import TokenUsage
from generation.samples import draw_samples, sample_requests
from inference.protocols import EngineInfo, GenerationDelta, GenerationRequest, SamplingParameters


class PriorityGenerator:
    """Notes at which priority each request reached it."""

    def __init__(self) -> None:
        self.priorities: list[int] = []

    def info(self) -> EngineInfo:
        raise NotImplementedError

    def is_healthy(self) -> bool:
        return True

    @contextmanager
    def stream(self, request: GenerationRequest) -> Iterator[Iterator[GenerationDelta]]:
        self.priorities.append(current_priority())
        yield iter([GenerationDelta("a", TokenUsage(4, 0, 1), finish_reason="stop")])


def test_samples_of_background_work_are_background_work() -> None:
    generator = PriorityGenerator()
    requests = sample_requests(GenerationRequest([1, 2, 3, 4], SamplingParameters(max_tokens=1)), 3)
    with working_at(BACKGROUND):
        samples = draw_samples(
            generator,
            requests,
            on_delta=lambda number, delta: None,
            on_usage=lambda usage: None,
            checkpoint=lambda: None,
        )
    assert [sample.text for sample in samples] == ["a"] * 3
    assert generator.priorities == [BACKGROUND] * 3


class FullForOthers(PriorityGenerator):
    """The first request fails while the others wait for a place, as for a full engine."""

    @contextmanager
    def stream(self, request: GenerationRequest) -> Iterator[Iterator[GenerationDelta]]:
        if request.request_id.endswith("-0"):
            yield self._fail()
        else:
            wait_watchfully(60.0)
            raise AssertionError("it waited on")

    def _fail(self) -> Iterator[GenerationDelta]:
        yield GenerationDelta("a", TokenUsage(4, 0, 1))
        time.sleep(0.3)
        raise EngineUnavailable("gone")


def test_samples_that_wait_for_a_place_stop_with_the_one_that_fails() -> None:
    request = GenerationRequest([1, 2, 3, 4], SamplingParameters(max_tokens=1), request_id="job")
    started = time.monotonic()
    with pytest.raises(EngineUnavailable):
        draw_samples(
            FullForOthers(),
            sample_requests(request, 3),
            on_delta=lambda number, delta: None,
            on_usage=lambda usage: None,
            checkpoint=lambda: None,
        )
    assert time.monotonic() - started < 5.0
