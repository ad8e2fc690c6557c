"""What goes in and out where a conversation's history is made use of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from core.usage import ModelUse

CondensingMethod = Literal["none", "rule", "model"]
SummaryMethod = Literal["rule", "model"]


@dataclass(frozen=True, slots=True)
class Turn:
    """An earlier question of the conversation with the answer it got, `""` where it got none."""

    question: str
    answer: str
    number: int = 0


@dataclass(frozen=True, slots=True)
class CondensedQuestion:
    """A question that can be understood, and searched for, without the conversation.

    `method` is what made `text`: `none` where the question stands alone as it is. `note` says why a
    method that was asked for was not the one used.
    """

    text: str
    method: CondensingMethod
    uses: tuple[ModelUse, ...] = ()
    seconds: float = 0.0
    note: str = ""


class QuestionCondenser(Protocol):
    """Makes a conversation's question stand alone, in its own language."""

    def condense(
        self, question: str, *, turns: Sequence[Turn], summary: str = "", cache_salt: str = ""
    ) -> CondensedQuestion:
        """`question` in the light of `turns` (oldest first) and of the summary of those before them."""
        ...


@dataclass(frozen=True, slots=True)
class DroppedHistory:
    """What became of turns that a summary now stands for.

    `num_rejected` facts of the model were not in the turns, `num_forgotten` older ones found no room.
    """

    first_turn: int
    last_turn: int
    method: SummaryMethod
    tokens_before: int
    tokens_after: int
    num_rejected: int = 0
    num_forgotten: int = 0

    def as_json(self) -> Mapping[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class FoldedHistory:
    """A summary that stands for itself as it was and for the turns folded into it."""

    summary: str
    dropped: DroppedHistory
    uses: tuple[ModelUse, ...] = ()
    note: str = ""
