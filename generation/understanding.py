"""What a question means: in its conversation, and as queries to search with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from sqlalchemy.orm import Session

from accounting.stages import Stage
from generation.attempt import Attempt
from generation.conversations import ConversationHistory, HistoryState
from retrieval.history.turns import Turn
from retrieval.query_expansion import Expansion, QueryExpander

_MAX_CONDENSED_CHARACTERS = 2_000
"""What stands alone is short; longer, it is other questions pasted together, and searches for them all."""


@dataclass(frozen=True, slots=True)
class Understood:
    """`text` stands alone; `queries` are further ones to search with.

    `summary` and `history` are what a prompt gets of the conversation. `state` is to be kept with
    the answer.
    """

    text: str
    queries: tuple[str, ...] = ()
    summary: str = ""
    history: Sequence[Turn] = ()
    state: HistoryState | None = None


class QuestionReader:
    """Makes questions stand alone, and queries of them. Safe to share between threads."""

    def __init__(self, history: ConversationHistory, expander: QueryExpander) -> None:
        self._history = history
        self._expander = expander

    def understand(self, attempt: Attempt) -> Understood:
        """The attempt's question as it can be searched for; notes the steps `history` and `queries`."""
        state = self._load(attempt)
        text = attempt.question.text if state is None else self._condense(attempt, state)
        queries = self._expand(attempt, text)
        if state is None:
            return Understood(text, queries)
        return Understood(text, queries, state.summary, state.answered, state)

    def keep(self, session: Session, attempt: Attempt, understood: Understood) -> None:
        """Write what the conversation has become, in the transaction that ends the turn."""
        if understood.state is not None:
            self._history.keep(session, attempt.tenant_id, understood.state)

    def _load(self, attempt: Attempt) -> HistoryState | None:
        """The conversation before this turn, its oldest turns folded where they exceed their room."""
        question = attempt.question
        if question.conversation_id is None:
            return None
        state = self._history.load(attempt.tenant_id, question.conversation_id, question.turn)
        state = self._history.fold(state, cache_salt=attempt.tenant_id)
        if state.folded is not None:
            attempt.consumption.add(Stage.CONDENSE, state.folded.uses)
            attempt.note(
                "history", {"folded": dict(state.folded.dropped.as_json()), "note": state.folded.note}
            )
        attempt.note("history", {"num_turns": len(state.turns), "summarized_turns": state.summarized_turns})
        attempt.run.checkpoint()
        return state

    def _condense(self, attempt: Attempt, state: HistoryState) -> str:
        condensed = self._history.condense(
            state, attempt.question.text, attempt.question.condensing, cache_salt=attempt.tenant_id
        )
        attempt.consumption.add(Stage.CONDENSE, condensed.uses)
        attempt.consumption.seconds["condense_seconds"] = condensed.seconds
        attempt.note(
            "condense", {"question": condensed.text, "method": condensed.method, "note": condensed.note}
        )
        attempt.run.checkpoint()
        return condensed.text if len(condensed.text) <= _MAX_CONDENSED_CHARACTERS else attempt.question.text

    def _expand(self, attempt: Attempt, text: str) -> tuple[str, ...]:
        how = attempt.question.expansion
        if how == "none":
            return ()
        expanded = self._expander.expand(text, cast(Expansion, how), cache_salt=attempt.tenant_id)
        attempt.consumption.add(Stage.CONDENSE, expanded.uses)
        attempt.note("queries", {"how": how, "queries": list(expanded.queries), "note": expanded.note})
        attempt.run.checkpoint()
        return expanded.queries
