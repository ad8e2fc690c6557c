"""The order of pieces that reuses most of what an engine holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from generation.prefix.pieces import Piece
from inference.resident_prefixes import Reach

_MAX_STEPS = 4_000
"""Of the search, each a look at one piece: some milliseconds, far more than real prompts need."""

Marker = Callable[[int], Sequence[int]]
"""Token ids of the number in front of the n-th passage, from 1."""


class PrefixView(Protocol):
    """What is asked of `ResidentPrefixes`, held still."""

    def follow(self, reach: Reach, token_ids: Sequence[int]) -> tuple[Reach, bool]: ...


def no_marker(number: int) -> Sequence[int]:
    """Of prompts whose passages have no numbers."""
    return ()


@dataclass(frozen=True, slots=True)
class Engine:
    """What an engine holds behind `start`, where the first passage of a prompt begins."""

    view: PrefixView
    start: Reach
    marker: Marker = no_marker

    def reach(self, pieces: Sequence[Piece]) -> tuple[Reach, bool]:
        """How far the pieces in this order are resident, and whether all of them are."""
        reach = self.start
        for number, piece in enumerate(pieces, start=1):
            reach, is_all = self.view.follow(reach, (*self.marker(number), *piece.token_ids))
            if not is_all:
                return reach, False
        return reach, True

    def num_cached(self, pieces: Sequence[Piece]) -> int:
        """Tokens of the pieces in this order that are resident."""
        return self.reach(pieces)[0].num_cached - self.start.num_cached


def longest_resident(engine: Engine, front: Sequence[Piece], rest: Sequence[Piece]) -> tuple[Piece, ...]:
    """Those of `rest`, in order, that go along farthest with what is resident behind `front`.

    The last one may be resident in part. Of orders that reach equally far the shortest is taken, then
    the one that follows the order given; none where nothing is resident.
    """
    start, is_all = engine.reach(front)
    if not is_all:
        return ()
    best: tuple[Piece, ...] = ()
    farthest, steps = start.num_cached, 0
    stack: list[tuple[Reach, tuple[Piece, ...]]] = [(start, ())]
    while stack and steps < _MAX_STEPS:
        reach, taken = stack.pop()
        further = []
        marker = engine.marker(len(front) + len(taken) + 1)
        for piece in rest:
            if piece in taken:
                continue
            steps += 1
            after, is_whole = engine.view.follow(reach, (*marker, *piece.token_ids))
            if after.num_cached > farthest:
                farthest, best = after.num_cached, (*taken, piece)
            if is_whole:
                further.append((after, (*taken, piece)))
        stack += reversed(further)
    return best


def arrange(
    engine: Engine, front: Sequence[Piece], rest: Sequence[Piece], *, last: Piece | None = None
) -> tuple[Piece, ...]:
    """`front`, then what is resident behind it, then the others as they would always stand.

    Others share a prefix with prompts to come only if all prompts put them the same way.

    Args:
        last: stands at the end, unless it is resident somewhere before.
    """
    head = longest_resident(engine, front, rest)
    tail = sorted((piece for piece in rest if piece not in head), key=lambda piece: piece.place)
    if last in tail:
        tail.sort(key=lambda piece: piece is last)
    return (*front, *head, *tail)
