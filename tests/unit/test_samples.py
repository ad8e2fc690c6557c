"""Several answers drawn side by side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
