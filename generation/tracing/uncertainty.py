"""How sure a model was of a token, from the few most probable ones that an engine reports."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from inference.protocols import GeneratedToken


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """Bounds of the entropy of the distribution that a token was drawn from, in nats.

    `rest` is the probability of all tokens that were not reported. `entropy` counts them as one and
    is never above the true value; `entropy_max` spreads `rest` evenly over the vocabulary's other
    tokens and is never below: they differ by `rest · ln(vocabulary − reported)`.
    """

    entropy: float
    entropy_max: float
    rest: float


def uncertainty(logprobs: Sequence[float], *, vocabulary_size: int) -> Uncertainty:
    """Of distinct tokens' log-probabilities, natural, in any order."""
    probabilities = [math.exp(min(0.0, logprob)) for logprob in logprobs]
    rest = max(0.0, 1.0 - sum(probabilities))
    entropy = sum(map(_surprise, [*probabilities, rest]))
    spread = rest * math.log(max(1, vocabulary_size - len(probabilities)))
    return Uncertainty(entropy, entropy + spread, rest)


def rank_of(token: GeneratedToken) -> int | None:
    """The token's place by probability, from 1; None where it is not among the alternatives."""
    if token.logprob is None or not token.alternatives:
        return None
    better = sum(choice.logprob > token.logprob for choice in token.alternatives)
    is_named = any(
        (choice.token_id, choice.text) == (token.token_id, token.text) for choice in token.alternatives
    )
    return better + 1 if is_named else None


def _surprise(probability: float) -> float:
    return -probability * math.log(probability) if probability > 0 else 0.0
