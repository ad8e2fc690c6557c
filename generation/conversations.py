"""What a conversation's earlier turns mean for its next question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal

from sqlalchemy.orm import Session

from core.ids import ConversationId, DocumentId, TenantId
from core.settings import AskSettings
from generation.attribution import strip_marks
from retrieval.history import (
    CondensedQuestion,
    CondensingMethod,
    FoldedHistory,
    HistorySummarizer,
    QuestionCondenser,
    Turn,
)
from storage.conversations import ConversationRepository, PastTurn
from storage.database import Database
from storage.listings import Listings

_KEPT_SHARE = 0.5  # of the history's room, after a fold


@dataclass(frozen=True, slots=True)
class HistoryState:
    """A conversation before its turn `turn`.

    `turns`: those after `summarized_turns`, oldest first, that succeeded; one that was refused has
    an empty answer. `folded`: what was folded into `summary` just now, not yet kept.
    """

    conversation_id: ConversationId
    turn: int
    turns: tuple[Turn, ...] = ()
    summary: str = ""
    summarized_turns: int = 0
    folded: FoldedHistory | None = None

    @property
    def answered(self) -> tuple[Turn, ...]:
        """The turns to put into a prompt: questions that nothing answered would only invite guesses."""
        return tuple(turn for turn in self.turns if turn.answer)


class ConversationHistory:
    """Loads, folds, condenses and keeps. Safe to share between threads.

    Args:
        condensers: by method, `rule` at least.
        auto: the method that `auto` stands for.
        summarizer: folds what exceeds `settings.history_tokens` into `settings.summary_tokens`.
    """

    def __init__(
        self,
        *,
        database: Database,
        condensers: Mapping[CondensingMethod, QuestionCondenser],
        auto: Literal["rule", "model"],
        summarizer: HistorySummarizer,
        settings: AskSettings,
    ) -> None:
        self._database = database
        self._condensers = condensers
        self._auto: Literal["rule", "model"] = auto
        self._summarizer = summarizer
        self._settings = settings

    def load(self, tenant_id: TenantId, conversation_id: ConversationId, turn: int) -> HistoryState:
        """The conversation as it stood before `turn`. Failed and cancelled turns are no history.

        Of a turn that cites a document deleted since only the question is left: what was deleted is
        not repeated.
        """
        with self._database.read() as session:
            conversations = ConversationRepository(session, tenant_id)
            conversation = conversations.get_own(conversation_id)
            past = conversations.past_turns(conversation_id, after=conversation.summarized_turns, before=turn)
            cited = frozenset[DocumentId]().union(*(each.document_ids for each in past))
            withdrawn = Listings(session, tenant_id).deleted_documents(sorted(cited)) if cited else cited
        return HistoryState(
            conversation_id=conversation_id,
            turn=turn,
            turns=tuple(_turn(each, withdrawn) for each in past if each.status == "succeeded"),
            summary=conversation.summary,
            summarized_turns=conversation.summarized_turns,
        )

    def fold(self, state: HistoryState, *, cache_salt: str) -> HistoryState:
        """The state with its oldest turns in the summary, if they exceed their room; else unchanged.

        Half of the room is freed at once, so that the history of the next turns begins alike, which
        the engine's prefix cache can reuse, and what folding costs is spread over them. The newest
        turn always stays: it is what the next question most likely refers to.
        """
        num_folded = self._num_to_fold([self._summarizer.count(turn) for turn in state.turns])
        if not num_folded:
            return state
        folded = self._summarizer.fold(
            state.summary,
            state.turns[:num_folded],
            max_tokens=self._settings.summary_tokens,
            cache_salt=cache_salt,
        )
        return replace(
            state,
            turns=state.turns[num_folded:],
            summary=folded.summary,
            summarized_turns=state.turns[num_folded - 1].number,
            folded=folded,
        )

    def condense(
        self, state: HistoryState, question: str, method: str, *, cache_salt: str
    ) -> CondensedQuestion:
        """`question` as it can be searched for; `method` is `auto`, `none`, `rule` or `model`."""
        chosen = self._auto if method == "auto" else method
        if chosen == "none" or not (state.turns or state.summary):
            return CondensedQuestion(question, "none")
        condenser = self._condensers["model" if chosen == "model" else "rule"]
        return condenser.condense(question, turns=state.turns, summary=state.summary, cache_salt=cache_salt)

    def _num_to_fold(self, sizes: Sequence[int]) -> int:
        """How many of the oldest turns, whose tokens are `sizes`, have to go."""
        total, num_folded = sum(sizes), 0
        if total <= self._settings.history_tokens:
            return 0
        while num_folded < len(sizes) - 1 and total > _KEPT_SHARE * self._settings.history_tokens:
            total -= sizes[num_folded]
            num_folded += 1
        return num_folded

    def keep(self, session: Session, tenant_id: TenantId, state: HistoryState) -> None:
        """Write the summary that `fold` made, in the transaction that ends the turn."""
        if state.folded is None:
            return
        ConversationRepository(session, tenant_id).keep_summary(
            state.conversation_id,
            summary=state.summary,
            summarized_turns=state.summarized_turns,
            dropped=state.folded.dropped.as_json(),
        )


def _turn(past: PastTurn, withdrawn: Set[DocumentId]) -> Turn:
    is_told = past.outcome == "answered" and past.document_ids.isdisjoint(withdrawn)
    return Turn(past.question, strip_marks(past.text or "").strip() if is_told else "", past.number)
