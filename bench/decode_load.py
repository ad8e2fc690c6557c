"""Several answers written at once: tokens a second, and who got a first word in time."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from inference.completions_client import CompletionsClient
from inference.protocols import GenerationRequest, SamplingParameters


@dataclass(slots=True)
class _Stream:
    """When each token of one answer came, in seconds since the start of all."""

    arrivals: list[tuple[float, int]] = field(default_factory=list)  # (seconds, tokens so far)
    cached_tokens: int = 0
    sent_at: float = 0.0

    def tokens_at(self, seconds: float) -> int:
        return max((tokens for moment, tokens in self.arrivals if moment <= seconds), default=0)

    @property
    def ttft_seconds(self) -> float:
        return self.arrivals[0][0] - self.sent_at


@dataclass(frozen=True, slots=True)
class Load:
    """What so many answers at once came to.

    `tokens_per_second` is of the time in which all were being written; `goodput` counts answers a
    second, from the first request to the last token, whose first token came within the limit.
    """

    concurrency: int
    tokens_per_second: float
    goodput: float
    ttft_seconds: tuple[float, ...]
    cached_share: float


def run_load(
    client: CompletionsClient, prompts: Sequence[Sequence[int]], *, num_tokens: int, ttft_limit: float
) -> Load:
    """Write an answer of exactly `num_tokens` to every prompt, all at once."""
    streams = [_Stream() for _ in prompts]
    started = time.perf_counter()
    threads = [
        threading.Thread(target=_follow, args=(client, prompt, stream, num_tokens, started))
        for prompt, stream in zip(prompts, streams, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    begun = max(stream.arrivals[0][0] for stream in streams)
    ended = min(stream.arrivals[-1][0] for stream in streams)
    if ended <= begun:  # some had ended before others began: all of the time counts
        begun, ended = 0.0, max(stream.arrivals[-1][0] for stream in streams)
    written = sum(stream.tokens_at(ended) - stream.tokens_at(begun) for stream in streams)
    in_time = sum(stream.ttft_seconds <= ttft_limit for stream in streams)
    return Load(
        concurrency=len(prompts),
        tokens_per_second=written / (ended - begun),
        goodput=in_time / max(stream.arrivals[-1][0] for stream in streams),
        ttft_seconds=tuple(sorted(stream.ttft_seconds for stream in streams)),
        cached_share=sum(s.cached_tokens for s in streams) / sum(len(prompt) for prompt in prompts),
    )


def _follow(
    client: CompletionsClient, prompt: Sequence[int], stream: _Stream, num_tokens: int, started: float
) -> None:
    sampling = SamplingParameters(max_tokens=num_tokens, min_tokens=num_tokens)
    stream.sent_at = time.perf_counter() - started
    with client.stream(GenerationRequest(prompt_token_ids=prompt, sampling=sampling)) as deltas:
        for delta in deltas:
            if delta.usage.completion_tokens:
                stream.arrivals.append((time.perf_counter() - started, delta.usage.completion_tokens))
            stream.cached_tokens = delta.usage.cached_tokens
