"""Whole document or passages: what a written answer is made from, by an explicit rule.

A document put whole into the prompt is computed once; later questions about it find its prefix
cached. It is put in whole where it fits and where, at the price of cached tokens, that costs no
more than sending passages with each of the questions expected. As many questions are expected to
come as have come within the last hour, this one included: who has asked five will ask five.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from core.errors import InvalidInput, TooLong
from core.ids import DocumentId


@dataclass(frozen=True, slots=True)
class WholeCandidate:
    """The one document that a question is about. `num_recent` questions were about it lately.

    A static one was marked so: what is computed of it is kept, so it counts as bought.
    """

    document_id: DocumentId
    name: str
    num_tokens: int
    num_recent: int
    is_static: bool = False


@dataclass(frozen=True, slots=True)
class ContextDecision:
    """`whole`: the document to put in, None for passages. `reason` has the figures."""

    whole: WholeCandidate | None
    reason: str

    def as_json(self) -> dict[str, Any]:
        return {
            "context": "whole" if self.whole else "passages",
            "document_id": self.whole.document_id if self.whole else None,
            "reason": self.reason,
        }


def decide_context(
    choice: str,
    candidate: WholeCandidate | None,
    *,
    passage_tokens: int,
    room_tokens: int,
    max_whole_tokens: int,
    cached_token_share: float,
) -> ContextDecision:
    """What to make a written answer from.

    Args:
        choice: `whole`, `passages` or `auto`.
        candidate: None where the passages found are of several documents.
        passage_tokens: what passages for one question take.
        room_tokens: what the model's window leaves for a document.
        cached_token_share: what a cached prompt token costs of an uncached one.

    Raises:
        InvalidInput: `whole` was asked for, and no single document is meant.
        TooLong: `whole` was asked for, and the document does not fit.
    """
    if choice == "passages":
        return ContextDecision(None, "asked for")
    if choice == "whole":
        return ContextDecision(_require(candidate, room_tokens), "asked for")
    if candidate is None:
        return ContextDecision(None, "the passages are of several documents")
    room = room_tokens if candidate.is_static else min(room_tokens, max_whole_tokens)
    if candidate.num_tokens > room:
        return ContextDecision(None, f"the document has {candidate.num_tokens} tokens, {room} fit")
    if candidate.is_static:
        return ContextDecision(candidate, "a static document, and it fits")
    needed = break_even_questions(candidate.num_tokens, passage_tokens, cached_token_share)
    expected = candidate.num_recent + 1
    if expected < needed:
        wanted = f"{needed:.0f}" if math.isfinite(needed) else "no number of"
        return ContextDecision(None, f"{expected} questions expected, {wanted} would pay for the whole")
    return ContextDecision(candidate, f"{expected} questions expected, {needed:.0f} pay for the whole")


def break_even_questions(whole_tokens: int, passage_tokens: int, cached_share: float) -> float:
    """With how many questions a document whole costs no more than passages; infinite if with none.

    Whole: `whole_tokens` once, then `cached_share` of them with each further question. Passages:
    `passage_tokens` with each question.
    """
    saved = passage_tokens - cached_share * whole_tokens
    if saved <= 0:
        return math.inf
    return max(1.0, math.ceil(whole_tokens * (1 - cached_share) / saved))


def _require(candidate: WholeCandidate | None, room_tokens: int) -> WholeCandidate:
    if candidate is None:
        raise InvalidInput(
            "`context` is `whole`, but the question is about several documents.",
            remedy="Name one in `filter.document_ids`, or leave `context` at `auto`.",
        )
    if candidate.num_tokens > room_tokens:
        raise TooLong(
            f"{candidate.name} has {candidate.num_tokens} tokens; the window has room for {room_tokens}.",
            remedy="Ask with `context` `passages`, or use a model with a longer window.",
            document_id=candidate.document_id,
            num_tokens=candidate.num_tokens,
            max_tokens=room_tokens,
        )
    return candidate
