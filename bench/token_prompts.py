"""Prompts of token ids that no other prompt shares a prefix with, and timing them."""

from __future__ import annotations

import random
from dataclasses import dataclass

from core.usage import TokenUsage
from inference.completions_client import CompletionsClient
from inference.protocols import EngineTimings, GenerationRequest, SamplingParameters

# Ordinary words in any vocabulary of today: no special token has such an id.
_FIRST_ID, _LAST_ID = 1_000, 30_000


@dataclass(frozen=True, slots=True)
class Timed:
    """One answer of an engine: what it took and what it wrote."""

    usage: TokenUsage
    timings: EngineTimings
    text: str

    @property
    def ttft_seconds(self) -> float:
        """From the client's send to its first token."""
        return self.timings.ttft_seconds

    @property
    def tpot_seconds(self) -> float:
        """Between two tokens, by the engine's own clock; 0 for an answer of one."""
        steps = self.usage.completion_tokens - 1
        return self.timings.decode_seconds / steps if steps > 0 else 0.0


def random_prompt(num_tokens: int, *, seed: int) -> list[int]:
    """Tokens drawn at random; another seed gives another first token already."""
    drawn = random.Random(seed)
    return [drawn.randint(_FIRST_ID, _LAST_ID) for _ in range(num_tokens)]


def generate(client: CompletionsClient, prompt: list[int], *, max_tokens: int, forced: bool = False) -> Timed:
    """A greedy answer; `forced`: of exactly `max_tokens`."""
    sampling = SamplingParameters(max_tokens=max_tokens, min_tokens=max_tokens if forced else 0)
    usage, timings, pieces = TokenUsage(), EngineTimings(), []
    with client.stream(GenerationRequest(prompt_token_ids=prompt, sampling=sampling)) as deltas:
        for delta in deltas:
            usage, timings = delta.usage, delta.timings or timings
            pieces.append(delta.text)
    return Timed(usage, timings, "".join(pieces))
