"""Whole documents by rent or buy.

A question about a document that is laid out by itself pays rent: the uncached tokens of its passages.
Once the rent paid, with what this question would pay, comes to a share of the document's tokens, a
static context is bought: the document whole where it fits, else its hot sections, which are the
pieces asked for so far; a piece asked for later is appended. Contexts stand first in prompts, so each
is computed once and found cached from then on, until the engine evicts it; then renting begins anew.

A context is used only where its cached tokens cost no more than the question's own passages would,
uncached. Bounds are in ADR 12.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from core.ids import DocumentId
from generation.prefix.accounts import Context
from generation.prefix.order import Engine, arrange
from generation.prefix.pieces import Piece, num_tokens

_HELD_SHARE = 0.5
"""A context of which less is resident was evicted: it would have to be bought again."""


@dataclass(frozen=True, slots=True)
class Limits:
    """`rent_share` of a document's tokens buys it. A cached token costs `cached_token_share` of an
    uncached one. No context has more than `max_static_tokens`, and no prompt more than `room_tokens`
    for all its pieces. `max_owed_tokens`: what a question's passages take at most, where only
    sentences of them are sent."""

    rent_share: float
    cached_token_share: float
    max_static_tokens: int
    room_tokens: int
    max_owed_tokens: int | None = None

    def owed(self, num_tokens: int) -> int:
        """What passages of so many tokens take of a prompt."""
        return num_tokens if self.max_owed_tokens is None else min(num_tokens, self.max_owed_tokens)

    def within(self, other_tokens: int) -> Limits:
        """Where pieces of other documents take some of the room."""
        room = max(0, self.room_tokens - other_tokens)
        return replace(self, max_static_tokens=min(self.max_static_tokens, room))


@dataclass(frozen=True, slots=True)
class DocumentState:
    """A document's account, its pieces loaded; those that are gone are left out.

    `num_tokens`: of all its text. `whole`: the document as one piece, None where that exceeds what
    may be put in whole.
    """

    document_id: DocumentId
    num_tokens: int
    rent: int = 0
    asked: tuple[Piece, ...] = ()
    contexts: tuple[tuple[Piece, ...], ...] = ()
    whole: Piece | None = None


@dataclass(frozen=True, slots=True)
class StaticChoice:
    """`pieces` of the whole prompt, the first `num_static` static; empty: none is used.

    `owed_tokens`: the rent of laying the question out by itself. `lost`, `context`, `replaces`: as
    in `Posting`.
    """

    reason: str
    owed_tokens: int
    pieces: tuple[Piece, ...] = ()
    num_static: int = 0
    lost: tuple[Context, ...] = ()
    context: Context | None = None
    replaces: Context | None = None


@dataclass(frozen=True, slots=True)
class _Option:
    front: tuple[Piece, ...]
    context: tuple[Piece, ...] | None = None
    replaces: tuple[Piece, ...] | None = None
    missing: tuple[Piece, ...] = ()  # found of the document, and not in front


def choose_static(
    engine: Engine,
    state: DocumentState,
    mine: Sequence[Piece],
    rest: Sequence[Piece],
    plain: Sequence[Piece],
    *,
    limits: Limits,
    last: Piece | None = None,
) -> StaticChoice:
    """The document's context to begin with, bought now or held already.

    Args:
        mine, rest: pieces found of this document and of others.
        plain: the order without a context.
        last: as in `arrange`.
    """
    owed = limits.owed(_uncached(engine, plain, state.document_id))
    held = tuple(context for context in state.contexts if _is_held(engine, context))
    lost = tuple(_keys(context) for context in state.contexts if context not in held)
    rent = 0 if lost and not held else state.rent
    due = limits.rent_share * state.num_tokens
    if not held and rent + owed < due:
        reason = f"the document's questions cost {rent + owed} tokens, {due:.0f} buy it"
        return StaticChoice(reason, owed, lost=lost)
    options = list(_extensions(held, mine, limits) if held else _purchases(state, mine, limits))
    worth = [
        option
        for option in options
        if limits.cached_token_share * num_tokens(option.front) <= limits.owed(num_tokens(mine))
    ]
    if not worth:
        what = "costs more, cached, than the passages" if options else "does not fit"
        return StaticChoice(f"the document's static context {what}", owed, lost=lost)

    def layout(option: _Option) -> tuple[Piece, ...]:
        return arrange(engine, option.front, (*option.missing, *rest), last=last)

    def cost(pieces: Sequence[Piece]) -> float:
        cached = engine.num_cached(pieces)
        return num_tokens(pieces) - cached * (1 - limits.cached_token_share)

    best = min(worth, key=lambda option: cost(layout(option)))
    pieces = layout(best)
    if best.context is None and cost(plain) < cost(pieces):
        return StaticChoice("its passages are resident by themselves", owed, lost=lost)
    return StaticChoice(
        _reason(best, rent + owed, is_held=bool(held)),
        owed,
        pieces,
        num_static=len(best.front),
        lost=lost,
        context=None if best.context is None else _keys(best.context),
        replaces=None if best.replaces is None else _keys(best.replaces),
    )


def _purchases(state: DocumentState, mine: Sequence[Piece], limits: Limits) -> Iterator[_Option]:
    if state.whole is not None and len(state.whole) <= limits.max_static_tokens:
        yield _Option((state.whole,), (state.whole,))
        return
    # The question's own pieces before all, then the oldest: what was asked first is asked most.
    chosen, left = [], limits.max_static_tokens
    for piece in dict.fromkeys((*mine, *state.asked)):
        if len(piece) <= left and not piece.is_whole:
            chosen.append(piece)
            left -= len(piece)
    if all(piece in chosen for piece in mine):
        context = tuple(sorted(chosen, key=lambda piece: piece.place))
        yield _Option(context, context)


def _extensions(
    held: Sequence[tuple[Piece, ...]], mine: Sequence[Piece], limits: Limits
) -> Iterator[_Option]:
    has_room = False
    for context in held:
        if context[0].is_whole:
            if len(context[0]) <= limits.max_static_tokens:
                has_room = True
                yield _Option(context)
            continue
        new = tuple(sorted((p for p in mine if p not in context), key=lambda piece: piece.place))
        if not new:
            # What comes behind the last piece needed is of no use to this question.
            needed = 1 + max(context.index(piece) for piece in mine)
            if num_tokens(context[:needed]) <= limits.max_static_tokens:
                has_room = True
                yield _Option(context[:needed])
        elif num_tokens((*context, *new)) <= limits.max_static_tokens:
            has_room = True
            yield _Option((*context, *new), (*context, *new), context)
        elif len(new) < len(mine):
            # Full: what it has is found there, what it lacks is rented behind it.
            needed = 1 + max(context.index(piece) for piece in mine if piece in context)
            if num_tokens((*context[:needed], *new)) <= limits.max_static_tokens:
                yield _Option(context[:needed], missing=new)
    if not has_room and num_tokens(mine) <= limits.max_static_tokens:
        own = tuple(sorted(mine, key=lambda piece: piece.place))
        yield _Option(own, own)


def _uncached(engine: Engine, pieces: Sequence[Piece], document_id: DocumentId) -> int:
    """Tokens of the document's pieces that would be computed, in this order."""
    left, owed = engine.num_cached(pieces), 0
    for piece in pieces:
        found = min(left, len(piece))
        left -= found
        if piece.document_id == document_id:
            owed += len(piece) - found
    return owed


def _is_held(engine: Engine, context: Sequence[Piece]) -> bool:
    return bool(context) and engine.num_cached(context) >= _HELD_SHARE * num_tokens(context)


def _keys(pieces: Sequence[Piece]) -> Context:
    return tuple(piece.key for piece in pieces)


def _reason(option: _Option, paid: int, *, is_held: bool) -> str:
    what = "the document whole" if option.front[0].is_whole else f"{len(option.front)} of its pieces"
    if option.context is None:
        return f"{what} first, held already"
    if option.replaces is not None:
        return f"{what} first, grown by what this question needs"
    if is_held:
        return f"{what} first, a context of its own: no other has room"
    return f"{what} first, bought: its questions cost {paid} tokens"
