"""Prefix planning without an engine: tokens computed by a cache that behaves as vLLM's does, and bounds.

Quality of the algorithm can so be judged in seconds: the same planner as in the product, fed with the
passages of a stream of questions, and a least-recently-used cache of blocks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from core.ids import DocumentId
from generation.prefix.accounts import Accounts
from generation.prefix.order import Engine
from generation.prefix.pieces import Piece, PieceKey
from generation.prefix.plan import Question, main_document, plan_prefix
from generation.prefix.static_context import DocumentState, Limits
from inference.resident_prefixes import CacheGeometry, ResidentPrefixes

_TENANT = "simulated"


@dataclass(frozen=True, slots=True)
class SimulatedQuestion:
    """What was found for a question: whole passages, and the same in pieces, both best first."""

    passages: tuple[Piece, ...]
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Library:
    """All documents: `wholes` as one piece each, and every piece by its key."""

    wholes: Mapping[DocumentId, Piece]
    pieces: Mapping[PieceKey, Piece]


@dataclass(frozen=True, slots=True)
class Simulated:
    """Tokens of a stream of questions, all together."""

    computed_tokens: int
    prompt_tokens: int


Layout = Callable[[ResidentPrefixes, SimulatedQuestion], Sequence[Piece]]


def simulate(
    stream: Sequence[SimulatedQuestion],
    layout: Layout,
    *,
    geometry: CacheGeometry,
    opening: Sequence[int],
    closing_tokens: int,
) -> Simulated:
    """Send the questions one after another.

    Args:
        opening: in front of the first passage.
        closing_tokens: behind the last one, different for each question.
    """
    cache = ResidentPrefixes(geometry)
    computed = total = 0
    for number, question in enumerate(stream):
        pieces = layout(cache, question)
        # No tokenizer gives negative ids, so no two questions end alike.
        closing = [-1 - number] * closing_tokens
        prompt = [*opening, *(token for piece in pieces for token in piece.token_ids), *closing]
        cached = cache.num_cached(_TENANT, prompt)
        computed += len(prompt) - cached
        total += len(prompt)
        cache.finished(cache.sent(_TENANT, prompt), cached_tokens=cached, completion_tokens=0)
    return Simulated(computed, total)


def in_retrieval_order(cache: ResidentPrefixes, question: SimulatedQuestion) -> Sequence[Piece]:
    """Best first, as everyone does."""
    return question.passages


def in_stable_order(cache: ResidentPrefixes, question: SimulatedQuestion) -> Sequence[Piece]:
    """By document and place."""
    return sorted(question.passages, key=lambda piece: piece.place)


class PlannedLayout:
    """The product's planner, its accounts included."""

    def __init__(self, library: Library, limits: Limits, *, opening: Sequence[int]) -> None:
        self._library = library
        self._limits = limits
        self._opening = opening
        self._accounts = Accounts(max_idle_seconds=float("inf"))

    def __call__(self, cache: ResidentPrefixes, question: SimulatedQuestion) -> Sequence[Piece]:
        document_id = DocumentId(main_document(question.pieces))
        account = self._accounts.get(_TENANT, document_id)
        whole, known = self._library.wholes[document_id], self._library.pieces
        state = DocumentState(
            document_id,
            len(whole),
            rent=account.rent,
            asked=tuple(known[key] for key in account.asked),
            contexts=tuple(tuple(known[key] for key in context) for context in account.contexts),
            whole=whole if len(whole) <= self._limits.max_static_tokens else None,
        )
        start, _ = cache.follow(cache.start(_TENANT), self._opening)
        plan = plan_prefix(Engine(cache, start), Question(question.pieces), state, self._limits)
        self._accounts.post(_TENANT, plan.posting)
        return plan.pieces


def any_order_bound(stream: Sequence[SimulatedQuestion], *, closing_tokens: int, block_tokens: int) -> int:
    """Least tokens computed by any order of a question's own passages, with a cache without end.

    Of each question all that the most similar earlier one did not have, its end, and half a block.
    """
    seen: list[frozenset[PieceKey]] = []
    total = 0
    for question in stream:
        sizes = {piece.key: len(piece) for piece in question.pieces}
        shared = max((sum(sizes[key] for key in sizes.keys() & other) for other in seen), default=0)
        total += sum(sizes.values()) - shared + closing_tokens + block_tokens // 2
        seen.append(frozenset(sizes))
    return total


def position_independent_bound(stream: Sequence[SimulatedQuestion], *, closing_tokens: int) -> int:
    """Least tokens computed where a passage is computed once, wherever it stands."""
    sizes: defaultdict[PieceKey, int] = defaultdict(int)
    for question in stream:
        sizes.update({piece.key: len(piece) for piece in question.pieces})
    return sum(sizes.values()) + len(stream) * closing_tokens
