"""How fast an engine is, fitted from what it was seen to take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from inference.capacity.roofline import attended

MIN_SAMPLES = 4
"""Fewer say too little to tell what depends on the length from what does not."""


@dataclass(frozen=True, slots=True)
class EngineSample:
    """One request as the engine timed it; `ttft_seconds` without the time in its queue."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    ttft_seconds: float
    decode_seconds: float


@dataclass(frozen=True, slots=True)
class EngineRates:
    """Seconds to the first token and for each further one.

    `ttft = start_seconds + uncached tokens · token_seconds + pairs · pair_seconds`, where a pair is a
    computed token and one it looks at; `tpot = decode_start_seconds + context · decode_token_seconds`.
    """

    start_seconds: float
    token_seconds: float
    pair_seconds: float
    decode_start_seconds: float
    decode_token_seconds: float
    num_samples: int

    def ttft_seconds(self, prompt_tokens: int, *, cached_tokens: int = 0) -> float:
        """Expected, on an engine with nothing else to do."""
        return (
            self.start_seconds
            + (prompt_tokens - cached_tokens) * self.token_seconds
            + attended(prompt_tokens, cached_tokens) * self.pair_seconds
        )

    def tpot_seconds(self, context_tokens: int) -> float:
        """Expected between two tokens, at a context so long."""
        return self.decode_start_seconds + context_tokens * self.decode_token_seconds


def fit_rates(samples: Sequence[EngineSample]) -> EngineRates | None:
    """The rates that fit best, by relative error; None for fewer than `MIN_SAMPLES`.

    No rate is negative. The half of relative errors that is largest counts little: what waited for
    others, or for a machine that was busy, took longer than the engine's own pace.
    """
    timed = [sample for sample in samples if sample.ttft_seconds > 0]
    if len(timed) < MIN_SAMPLES:
        return None
    prefill = [
        (1.0, float(s.prompt_tokens - s.cached_tokens), float(attended(s.prompt_tokens, s.cached_tokens)))
        for s in timed
    ]
    start, token, pair = _fit(np.array(prefill), np.array([s.ttft_seconds for s in timed]))
    decoded = [s for s in timed if s.completion_tokens > 1 and s.decode_seconds > 0]
    if not decoded:
        return EngineRates(start, token, pair, 0.0, 0.0, len(timed))
    contexts = [(1.0, s.prompt_tokens + s.completion_tokens / 2) for s in decoded]
    steps = [s.decode_seconds / (s.completion_tokens - 1) for s in decoded]
    decode_start, decode_token = _fit(np.array(contexts), np.array(steps))
    return EngineRates(start, token, pair, decode_start, decode_token, len(timed))


def _fit(terms: NDArray[np.float64], seconds: NDArray[np.float64]) -> list[float]:
    """Coefficients, none negative, of the terms (num_samples, num_terms) that give the seconds."""
    weights = 1.0 / seconds
    coefficients = np.zeros(terms.shape[1])
    for _ in range(3):
        coefficients = _fit_weighted(terms, seconds, weights)
        errors = np.abs(terms @ coefficients - seconds) / seconds
        scale = max(float(np.median(errors)), 0.02)
        weights = 1.0 / (seconds * np.maximum(1.0, errors / scale))
    return [float(value) for value in coefficients]


def _fit_weighted(
    terms: NDArray[np.float64], seconds: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Least squares over every subset of the terms; the best without a negative coefficient."""
    best, best_error = np.zeros(terms.shape[1]), float("inf")
    for size in range(1, terms.shape[1] + 1):
        for chosen in combinations(range(terms.shape[1]), size):
            columns = list(chosen)
            weighted = terms[:, columns] * weights[:, None]
            # Terms differ by seven orders of magnitude; unscaled, the small ones would count as noise.
            scales = np.linalg.norm(weighted, axis=0)
            if not np.all(scales > 0):
                continue
            solved, *_ = np.linalg.lstsq(weighted / scales, seconds * weights, rcond=None)
            if np.any(solved < 0):
                continue
            error = float(np.sum((weighted / scales @ solved - seconds * weights) ** 2))
            if error < best_error * 0.999:  # a further term must earn its place
                best, best_error = np.zeros(terms.shape[1]), error
                best[columns] = solved / scales
    return best
