"""Several answers to one prompt, drawn side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

from core.cancellation import Checkpoint, watching
from core.errors import JobCancelled
from core.usage import TokenUsage
from generation.agreement import Agreement
from inference.protocols import EngineTimings, GenerationDelta, GenerationRequest, Generator

_LOOK_SECONDS = 0.1
_SEED_BOUND = 2**63


@dataclass(frozen=True, slots=True)
class Sample:
    """One of several answers, and what it took."""

    text: str
    finish_reason: str
    seed: int | None
    usage: TokenUsage
    timings: EngineTimings


@dataclass(slots=True)
class _Drawing:
    """A sample being drawn; written to by its own thread alone."""

    request: GenerationRequest
    on_delta: Callable[[GenerationDelta], None]
    text: str = ""
    finish_reason: str = ""
    usage: TokenUsage = field(default_factory=TokenUsage)
    timings: EngineTimings = field(default_factory=EngineTimings)
    is_under_way: threading.Event = field(default_factory=threading.Event)

    def draw(self, generator: Generator, stopped: threading.Event) -> None:
        def check() -> None:
            if stopped.is_set():
                raise JobCancelled("The other samples were stopped.")

        with watching(check), generator.stream(self.request) as deltas:
            for delta in deltas:
                self.usage = delta.usage
                self.on_delta(delta)
                if delta.usage.completion_tokens:
                    self.is_under_way.set()
                self.text += delta.text
                self.finish_reason = delta.finish_reason or self.finish_reason
                self.timings = delta.timings or self.timings
                if stopped.is_set():
                    return

    @property
    def sample(self) -> Sample:
        return Sample(
            self.text.strip(), self.finish_reason, self.request.sampling.seed, self.usage, self.timings
        )


def sample_requests(request: GenerationRequest, num_samples: int) -> list[GenerationRequest]:
    """The request as often as wanted, each with a seed of its own if it has one, counted up from it."""
    seed = request.sampling.seed
    seeds = list(islice(_seeds(seed), num_samples)) if seed is not None else [None] * num_samples
    return [
        replace(
            request,
            sampling=replace(request.sampling, seed=each),
            request_id=f"{request.request_id}-{number}" if request.request_id else "",
        )
        for number, each in enumerate(seeds)
    ]


def _seeds(first: int) -> Iterator[int]:
    """`first` and what follows, without -1, which to engines is no seed."""
    seed = first
    while True:
        if seed != -1:
            yield seed
        seed = -_SEED_BOUND if seed == _SEED_BOUND - 1 else seed + 1


def draw_samples(
    generator: Generator,
    requests: Sequence[GenerationRequest],
    *,
    on_delta: Callable[[int, GenerationDelta], None],
    on_usage: Callable[[TokenUsage], None],
    checkpoint: Checkpoint,
) -> list[Sample]:
    """The requests' answers, in their order, run side by side.

    The first is a head ahead: the others start with its first token, and so find the prompt that
    they share in the engine's cache. If one fails, or `checkpoint` raises, all are stopped.

    Args:
        on_delta: gets each delta of each request, by its number, in a thread of that request's own.
        on_usage: hears a few times a second, and at the end however it ends, what all of them have
            taken so far.
        checkpoint: called as often, in the caller's thread.

    Raises:
        what `Generator.stream` raises, and what `checkpoint` does.
    """
    drawings = [_Drawing(request, partial(on_delta, number)) for number, request in enumerate(requests)]
    stopped = threading.Event()
    try:
        with ThreadPoolExecutor(len(drawings), thread_name_prefix="sample") as pool:
            try:
                _run(pool, generator, drawings, stopped, on_usage, checkpoint)
            except BaseException:
                stopped.set()  # leaving the pool then waits until each has seen it
                raise
    finally:
        on_usage(_total(drawings))
    return [drawing.sample for drawing in drawings]


def _run(
    pool: ThreadPoolExecutor,
    generator: Generator,
    drawings: Sequence[_Drawing],
    stopped: threading.Event,
    on_usage: Callable[[TokenUsage], None],
    checkpoint: Checkpoint,
) -> None:
    def start(drawing: _Drawing) -> Future[None]:
        # A thread inherits nothing by itself: neither the work's priority nor what its logs are about.
        return pool.submit(copy_context().run, drawing.draw, generator, stopped)

    first, *others = drawings
    running = {start(first)}
    while running or others:
        done, running = wait(running, timeout=_LOOK_SECONDS, return_when=FIRST_COMPLETED)
        for future in done:
            future.result()
        if others and (first.is_under_way.is_set() or done):
            running |= {start(drawing) for drawing in others}
            others = []
        on_usage(_total(drawings))
        checkpoint()


def _total(drawings: Sequence[_Drawing]) -> TokenUsage:
    return sum((drawing.usage for drawing in drawings), TokenUsage())


def summed_timings(samples: Sequence[Sample]) -> EngineTimings:
    """Engine time of all together; to the first token, and in all, as the caller waited."""
    timings = [sample.timings for sample in samples]
    return EngineTimings(
        queue_seconds=timings[0].queue_seconds,
        prefill_seconds=sum(each.prefill_seconds for each in timings),
        decode_seconds=sum(each.decode_seconds for each in timings),
        ttft_seconds=timings[0].ttft_seconds,
        total_seconds=max(each.total_seconds for each in timings),
    )


def samples_json(samples: Sequence[Sample], agreement: Agreement) -> dict[str, Any]:
    """For `Answer.samples`: what was drawn, what agrees, and what was chosen; costs come later."""
    return {
        "agreement": round(agreement.score, 4),
        "chosen": agreement.chosen,
        "clusters": [list(cluster) for cluster in agreement.clusters],
        "items": [
            {
                "text": sample.text,
                "finish_reason": sample.finish_reason,
                "seed": sample.seed,
                "prompt_tokens": sample.usage.prompt_tokens,
                "cached_tokens": sample.usage.cached_tokens,
                "completion_tokens": sample.usage.completion_tokens,
            }
            for sample in samples
        ],
    }
