"""Which of several engines a request goes to.

The rule: of the engines that are up and can do what the request asks for, the one that holds most of
its prompt; where none holds enough to matter, the one that a hash of the prompt's beginning names, so
that all processes send the same beginning to the same engine. One that is much busier than the least
busy comes after all others.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

MIN_HELD_TOKENS = 256
"""Less is instructions, which every engine holds soon: not worth gathering requests at one engine."""

AFFINITY_TOKENS = 512
"""Tokens of a prompt's beginning that its affinity hangs on: instructions and what comes first."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An engine for one request.

    `held_tokens` of its prompt are expected in the engine's cache, `load` are the requests that it
    runs and keeps waiting, `affinity` is from `affinity`.
    """

    name: str
    held_tokens: int
    load: int
    affinity: int


def rank(candidates: Sequence[Candidate], *, max_imbalance: int) -> list[Candidate]:
    """Best first; deterministic.

    Args:
        max_imbalance: requests that an engine may have more than the least busy one, and still be
            preferred for what it holds.
    """
    least = min((candidate.load for candidate in candidates), default=0)

    def order(candidate: Candidate) -> tuple[int, int, int, str]:
        overload = candidate.load if candidate.load - least > max_imbalance else 0
        held = candidate.held_tokens if candidate.held_tokens >= MIN_HELD_TOKENS else 0
        return overload, -held, -candidate.affinity, candidate.name

    return sorted(candidates, key=order)


def affinity(engine: str, salt: str, token_ids: Sequence[int]) -> int:
    """How much an engine is meant for prompts that begin so (rendezvous hashing).

    The engine with the highest value is. When one is added or taken away, only the prompts that it
    gains or loses change their engine. Source: Thaler and Ravishankar, 1998.
    """
    digest = blake2b(f"{engine}\n{salt}\n".encode(), digest_size=8)
    digest.update(array("q", token_ids[:AFFINITY_TOKENS]).tobytes())
    return int.from_bytes(digest.digest(), "big")
