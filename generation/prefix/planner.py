"""Plans the passages of prompts so that they share prefixes: reads, decides (`plan`), remembers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.ids import DocumentId, TenantId, new_id
from core.settings import AskSettings
from generation.attempt import Attempt
from generation.prefix.accounts import Account, Accounts, Posting
from generation.prefix.order import Engine
from generation.prefix.other_processes import OtherProcesses
from generation.prefix.pieces import Piece, PieceKey, is_whole, num_tokens
from generation.prefix.plan import PrefixPlan, Question, main_document, plan_prefix
from generation.prefix.shelf import PieceShelf
from generation.prefix.static_context import DocumentState, Limits
from generation.prompt import PassageLayout
from inference.resident_prefixes import ResidentPrefixes
from inference.tracked_generator import HoldsPrefixes, salt_of
from retrieval.passages import Passage
from storage.database import Database
from storage.recent_prefixes import find_last_prefix

_SURE_LEAD = 1.5
"""By so much the best passage's score exceeds the next one's where the ranking is to be relied on."""

_NUMBERS_TOKENS = 300
"""Room for the numbers of passages and for the line that ranks them."""


@dataclass(frozen=True, slots=True)
class PlannedPassages:
    """`pieces` in the order of the prompt, the first `num_static` static context. `ranking` are the
    pieces that hold what was found, best first, if the order does not say it."""

    pieces: tuple[Piece, ...]
    num_static: int
    ranking: tuple[Piece, ...]


class PrefixPlanner:
    """One for each worker process, shared by all its threads.

    Args:
        generator: its engines' caches are planned for. Of several engines the one is meant that holds
            most; that the request goes there is for whoever routes it.
    """

    def __init__(self, database: Database, settings: AskSettings, generator: HoldsPrefixes) -> None:
        self._database = database
        self._settings = settings
        self._generator = generator
        self._shelf = PieceShelf(database)
        self._accounts = Accounts(max_idle_seconds=settings.whole_lookback_seconds)
        self._process = new_id("proc")
        self._others = OtherProcesses(
            database, self._shelf, self._accounts, generator, own_process=self._process
        )

    def plan(
        self,
        attempt: Attempt,
        passages: Sequence[Passage],
        *,
        layout: PassageLayout,
        room_tokens: int,
        max_owed_tokens: int | None = None,
    ) -> PlannedPassages | None:
        """The passages as they are to stand in the prompt; None if none of them is there any more.

        Notes the step `prefix`.

        Args:
            passages: found for the question, best first.
            room_tokens: what the window leaves for them.
            max_owed_tokens: what the question's passages take at most, where sentences are kept of them.
        """
        question = attempt.question
        tenant_id, collection_id = attempt.tenant_id, question.collection_id
        self._others.learn(attempt, layout)
        found = self._shelf.of_passages(tenant_id, collection_id, passages, layout)
        if not found:
            return None
        document_id = DocumentId(main_document(found))
        limits = self._limits(attempt, layout, room_tokens, max_owed_tokens)
        state = self._state(attempt, document_id, found, layout, limits)
        previous = self._previous(attempt, layout) if max_owed_tokens is None else ()
        asked = Question(found, is_sure=question.rerank and _is_sure(passages), previous=previous)
        plans = [
            self._plan_for(cache, tenant_id, layout, asked, state, limits)
            for cache in self._generator.prefix_caches()
        ]
        plan = max(plans, key=lambda plan: plan.cached_tokens - num_tokens(plan.pieces))
        self._accounts.post(tenant_id, plan.posting)
        attempt.note("prefix", self._as_json(attempt, plan, layout))
        return PlannedPassages(plan.pieces, plan.num_static, _ranking(plan.pieces, found))

    def _plan_for(
        self,
        cache: ResidentPrefixes,
        tenant_id: TenantId,
        layout: PassageLayout,
        asked: Question,
        state: DocumentState,
        limits: Limits,
    ) -> PrefixPlan:
        salt = salt_of(self._generator.info(), tenant_id)
        with cache.held_still():
            start, _ = cache.follow(cache.start(salt), layout.opening_ids)
            return plan_prefix(Engine(cache, start, layout.marker), asked, state, limits)

    def _limits(
        self, attempt: Attempt, layout: PassageLayout, room_tokens: int, max_owed_tokens: int | None
    ) -> Limits:
        room = max(0, room_tokens - (_NUMBERS_TOKENS if layout.is_numbered else 0))
        is_wanted = attempt.question.context == "auto"
        return Limits(
            rent_share=self._settings.static_rent_share,
            cached_token_share=self._settings.cached_token_share,
            max_static_tokens=min(room, self._settings.max_whole_tokens) if is_wanted else 0,
            room_tokens=room,
            max_owed_tokens=max_owed_tokens,
        )

    def _state(
        self,
        attempt: Attempt,
        document_id: DocumentId,
        found: Sequence[Piece],
        layout: PassageLayout,
        limits: Limits,
    ) -> DocumentState:
        """The document's account with its pieces, those that a decision may turn on."""
        account = self._accounts.get(attempt.tenant_id, document_id)
        size = self._shelf.count_tokens(attempt.tenant_id, document_id)
        mine = [piece for piece in found if piece.document_id == document_id]
        is_near = account.rent + num_tokens(mine) >= limits.rent_share * size
        if limits.max_static_tokens == 0 or not (account.contexts or is_near):
            return DocumentState(document_id, size, rent=account.rent)
        known: dict[PieceKey, Piece] = dict(
            self._shelf.load(attempt.tenant_id, attempt.question.collection_id, account.keys, layout)
        )
        whole = None
        # Chunks overlap, so the document itself has somewhat fewer tokens.
        if 0.9 * size <= limits.max_static_tokens or any(map(is_whole, account.keys)):
            whole = self._shelf.whole(attempt.tenant_id, document_id, layout)
            if whole is not None:
                known[whole.key] = whole
        account = self._without_gone(attempt, document_id, account, known)
        return DocumentState(
            document_id,
            size,
            rent=account.rent,
            asked=tuple(known[key] for key in account.asked if key in known),
            contexts=tuple(tuple(known[key] for key in context) for context in account.contexts),
            whole=whole,
        )

    def _without_gone(
        self, attempt: Attempt, document_id: DocumentId, account: Account, known: Mapping[PieceKey, Piece]
    ) -> Account:
        """The account without contexts of text that was deleted or replaced."""
        gone = tuple(c for c in account.contexts if any(key not in known for key in c))
        if not gone:
            return account
        self._accounts.post(attempt.tenant_id, Posting(document_id, lost=gone))
        return self._accounts.get(attempt.tenant_id, document_id)

    def _previous(self, attempt: Attempt, layout: PassageLayout) -> tuple[Piece, ...]:
        """What the conversation's last prompt held, in order; nothing where the filter may forbid it."""
        question = attempt.question
        if question.conversation_id is None or question.filter or question.context != "auto":
            return ()
        with self._database.read() as session:
            last = find_last_prefix(
                session, attempt.tenant_id, question.conversation_id, before=question.turn
            )
        keys = [PieceKey(key) for key in (last or {}).get("order", [])]
        known = dict(self._shelf.load(attempt.tenant_id, question.collection_id, keys, layout))
        for key in filter(is_whole, keys):
            document_id = DocumentId(key.removeprefix("whole:"))
            whole = self._shelf.whole(attempt.tenant_id, document_id, layout)
            if whole is not None:
                known[key] = whole
        # What stands behind something that is gone does not stand where it stood.
        return tuple(known[key] for key in keys) if all(key in known for key in keys) else ()

    def _as_json(self, attempt: Attempt, plan: PrefixPlan, layout: PassageLayout) -> dict[str, Any]:
        opening = len(layout.opening_ids)
        return plan.as_json() | {
            "process": self._process,
            "mode": attempt.question.mode,
            "opening_tokens": opening,
        }


def _is_sure(passages: Sequence[Passage]) -> bool:
    return len(passages) > 1 and passages[0].score >= _SURE_LEAD * passages[1].score


def _ranking(pieces: Sequence[Piece], found: Sequence[Piece]) -> tuple[Piece, ...]:
    """The prompt's pieces that hold what was found, best first; empty where they stand so anyway."""
    by_key = {piece.key: piece for piece in pieces}
    wholes = {piece.document_id: piece for piece in pieces if piece.is_whole}
    held = [by_key.get(piece.key) or wholes.get(piece.document_id) for piece in found]
    ranking = tuple(dict.fromkeys(piece for piece in held if piece is not None))
    return () if ranking == tuple(pieces) else ranking
