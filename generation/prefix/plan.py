"""What a prompt begins with: which pieces stand in front of the question, and in what order.

    [a document's static context] [what is resident behind it] [the rest, as it always stands]

The static context is a document whole or, where that is too long, its hot sections: the pieces asked
for so far, each appended when it is first asked for. It is bought when the document's questions have
paid a share of its tokens (see `static_context`). Without one the order is the path through the
cache that reuses most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from generation.prefix.accounts import Posting
from generation.prefix.order import Engine, arrange
from generation.prefix.pieces import Piece, num_tokens
from generation.prefix.static_context import DocumentState, Limits, choose_static


@dataclass(frozen=True, slots=True)
class Question:
    """What was found for a question, best first; at least one piece.

    `is_sure`: the first is by far the best, and is to stand next to the question if it can.
    `previous`: what the conversation's last prompt held, in order.
    """

    pieces: tuple[Piece, ...]
    is_sure: bool = False
    previous: tuple[Piece, ...] = ()

    @property
    def last(self) -> Piece | None:
        return self.pieces[0] if self.is_sure else None


@dataclass(frozen=True, slots=True)
class PrefixPlan:
    """`pieces` in the order of the prompt; the first `num_static` are static context.

    `cached_tokens` of the prompt are expected to be found. `posting` is for the document's account.
    """

    pieces: tuple[Piece, ...]
    num_static: int
    cached_tokens: int
    reason: str
    posting: Posting

    def as_json(self) -> dict[str, Any]:
        """For `Answer.steps`; `order` and `posting` let other processes learn from it."""
        posting = self.posting
        return {
            "reason": self.reason,
            "order": [piece.key for piece in self.pieces],
            "num_static": self.num_static,
            "passage_tokens": num_tokens(self.pieces),
            "predicted_cached_tokens": self.cached_tokens,
            "document_id": posting.document_id,
            "rent": posting.rent,
            "asked": list(posting.asked),
            "context": None if posting.context is None else list(posting.context),
        }


def main_document(pieces: Sequence[Piece]) -> str:
    """The document that has most of the tokens found; of equals that of the better piece."""
    tokens: Counter[str] = Counter()
    for piece in pieces:
        tokens[piece.document_id] += len(piece)
    return max(tokens, key=lambda document_id: tokens[document_id])


def plan_prefix(engine: Engine, question: Question, state: DocumentState, limits: Limits) -> PrefixPlan:
    """The prompt's pieces, in order; `state` is that of `main_document`."""
    kept = _continued(question, limits)
    if kept is not None:
        return _continue(engine, question, state, kept)
    mine = tuple(p for p in question.pieces if p.document_id == state.document_id)
    rest = tuple(p for p in question.pieces if p.document_id != state.document_id)
    plain = arrange(engine, (), question.pieces, last=question.last)
    choice = choose_static(
        engine, state, mine, rest, plain, limits=limits.within(num_tokens(rest)), last=question.last
    )
    posting = Posting(
        state.document_id,
        rent=0 if choice.pieces else choice.owed_tokens,
        asked=tuple(piece.key for piece in mine),
        lost=choice.lost,
        context=choice.context,
        replaces=choice.replaces,
    )
    pieces = choice.pieces or plain
    return PrefixPlan(pieces, choice.num_static, engine.reach(pieces)[0].num_cached, choice.reason, posting)


def _continued(question: Question, limits: Limits) -> tuple[Piece, ...] | None:
    """The last prompt's pieces, if they are to stay: they have to do with what was found now, and
    leave room for what is new."""
    previous = question.previous
    documents = {piece.document_id for piece in previous}
    if not any(piece.document_id in documents for piece in question.pieces):
        return None
    if num_tokens(previous) + num_tokens(_new(question)) > limits.max_static_tokens:
        return None
    return previous


def _new(question: Question) -> tuple[Piece, ...]:
    held = {piece.key for piece in question.previous}
    whole = {piece.document_id for piece in question.previous if piece.is_whole}
    return tuple(p for p in question.pieces if p.key not in held and p.document_id not in whole)


def _continue(
    engine: Engine, question: Question, state: DocumentState, kept: tuple[Piece, ...]
) -> PrefixPlan:
    new = _new(question)
    pieces = arrange(engine, kept, new, last=question.last)
    mine = tuple(piece for piece in question.pieces if piece.document_id == state.document_id)
    posting = Posting(
        state.document_id,
        rent=num_tokens([piece for piece in new if piece.document_id == state.document_id]),
        asked=tuple(piece.key for piece in mine),
    )
    reason = f"{len(kept)} passages of the conversation stay, {len(new)} are appended"
    return PrefixPlan(pieces, len(kept), engine.reach(pieces)[0].num_cached, reason, posting)
