"""How sure a model was of a token, from the few most probable ones that an engine reports."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from inference.protocols import GeneratedToken


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """Bounds of the entropy of the distribution that a token was drawn from, in nats.

    `rest` is the probability of all tokens that were not reported. None of them is more probable than
    the least of those reported for their rank, p, nor than all together; so each adds at least its
    share of `rest · −ln min(p, rest)`, and with that `entropy` is never above the true value.
    `entropy_max` spreads `rest` evenly over the vocabulary's other tokens and is never below it.
    """

    entropy: float
    entropy_max: float
    rest: float


def uncertainty(logprobs: Sequence[float], *, num_top: int, vocabulary_size: int) -> Uncertainty:
    """Of distinct tokens' natural log-probabilities.

    Args:
        logprobs: of the `num_top` most probable tokens, and of the one that was picked, in any order.
    """
    probabilities = sorted((math.exp(min(0.0, logprob)) for logprob in logprobs), reverse=True)
    rest = max(0.0, 1.0 - sum(probabilities))
    known = sum(map(_surprise, probabilities))
    if rest == 0 or not probabilities:
        return Uncertainty(known, known, rest)
    # The picked token may be reported for being picked only: others may be more probable than it.
    bound = min(rest, probabilities[min(num_top, len(probabilities)) - 1])
    most = _surprise(rest) + rest * math.log(max(1, vocabulary_size - len(probabilities)))
    least = min(-rest * math.log(bound), most) if bound > 0 else most
    return Uncertainty(known + least, known + most, rest)


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
