"""Conversations: questions about one collection that are asked one after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, String, cast, exists, select, update
from sqlalchemy.orm import Session

from core.clock import utc_now
from core.errors import Conflict, NotFound
from core.ids import CollectionId, ConversationId, DocumentId, TenantId, new_id
from storage.job_states import FINAL_STATUSES
from storage.models import Answer, Conversation, Job
from storage.paging import Page, PageRequest, paginate


@dataclass(frozen=True, slots=True)
class NextTurn:
    """The place in a conversation that a new question takes; `number` counts from 1."""

    conversation_id: ConversationId
    collection_id: CollectionId
    number: int


@dataclass(frozen=True, slots=True)
class PastTurn:
    """An earlier question and what became of it; `outcome` and `text` only where it was answered.

    `document_ids` are those it cites, deleted ones included.
    """

    number: int
    question: str
    status: str
    outcome: str | None
    text: str | None
    statements: Sequence[Mapping[str, Any]]
    document_ids: frozenset[DocumentId]


class ConversationRepository:
    """Sees only its tenant's conversations; another tenant's do not exist."""

    def __init__(self, session: Session, tenant_id: TenantId) -> None:
        self._session = session
        self._tenant_id = tenant_id

    def create(self, collection_id: CollectionId, *, title: str = "") -> Conversation:
        conversation = Conversation(
            id=new_id("con"),
            tenant_id=self._tenant_id,
            collection_id=collection_id,
            title=title,
            num_turns=0,
            summary="",
            summarized_turns=0,
            summary_dropped=[],
        )
        self._session.add(conversation)
        self._session.flush()
        return conversation

    def get(self, conversation_id: ConversationId) -> Conversation:
        """Raises `NotFound` for an unknown, deleted or foreign id."""
        return self._require(self._live(conversation_id), conversation_id)

    def list_page(
        self, page: PageRequest, *, collection_id: CollectionId | None = None
    ) -> Page[Conversation]:
        query = select(Conversation).where(
            Conversation.tenant_id == self._tenant_id, Conversation.deleted_at.is_(None)
        )
        if collection_id is not None:
            query = query.where(Conversation.collection_id == collection_id)
        return paginate(self._session, query, Conversation, page)

    def delete(self, conversation_id: ConversationId, *, at: datetime | None = None) -> None:
        """Takes no more questions and is no longer listed; its answers stay, and so does their bill."""
        self._hold(conversation_id).deleted_at = at or utc_now()

    def take_turn(self, conversation_id: ConversationId) -> NextTurn:
        """The next turn, for a question made in this transaction.

        A question is understood in the light of the answer before it, so it waits for that answer;
        two questions at once would otherwise each miss the other.

        Raises:
            NotFound: no such conversation of the tenant.
            Conflict: the question before it is not finished.
        """
        conversation = self._hold(conversation_id)
        self._require_finished(conversation)
        conversation.num_turns += 1
        self._session.flush()
        return NextTurn(conversation_id, CollectionId(conversation.collection_id), conversation.num_turns)

    def past_turns(
        self, conversation_id: ConversationId, *, after: int = 0, before: int | None = None
    ) -> list[PastTurn]:
        """The turns numbered above `after` and below `before`, oldest first."""
        query = (
            select(Answer, Job.status)
            .join(Job, Job.id == Answer.job_id)
            .where(
                Answer.tenant_id == self._tenant_id,
                Answer.conversation_id == conversation_id,
                Answer.turn > after,
            )
            .order_by(Answer.turn)
        )
        if before is not None:
            query = query.where(Answer.turn < before)
        return [
            PastTurn(
                row.turn or 0,
                row.question,
                status,
                row.outcome,
                row.text,
                row.statements,
                frozenset(DocumentId(citation["document_id"]) for citation in row.citations),
            )
            for row, status in self._session.execute(query)
        ]

    def keep_summary(
        self,
        conversation_id: ConversationId,
        *,
        summary: str,
        summarized_turns: int,
        dropped: Mapping[str, Any],
    ) -> bool:
        """Let `summary` stand for the turns up to `summarized_turns`; False where it already reaches
        as far, as after a task that was delivered twice."""
        conversation = self._session.scalar(
            self._own(conversation_id).with_for_update().execution_options(populate_existing=True)
        )
        if conversation is None or conversation.summarized_turns >= summarized_turns:
            return False
        self._session.execute(
            update(Conversation)
            .where(Conversation.id == conversation_id, Conversation.tenant_id == self._tenant_id)
            .values(
                summary=summary,
                summarized_turns=summarized_turns,
                summary_dropped=[*conversation.summary_dropped, dict(dropped)],
            )
        )
        return True

    def forget_document(self, document_id: DocumentId) -> None:
        """Empty the summaries of the conversations that cite the document: they may repeat it.

        What was lost with it is recorded like anything else that a summary drops.
        """
        cites = cast(Answer.citations, String).contains(document_id, autoescape=True)
        query = select(Conversation).where(
            Conversation.tenant_id == self._tenant_id,
            Conversation.summary != "",
            exists().where(Answer.conversation_id == Conversation.id, cites),
        )
        for conversation in self._session.scalars(query.with_for_update()):
            folds = conversation.summary_dropped
            emptied = {
                "first_turn": 1,
                "last_turn": conversation.summarized_turns,
                "method": "document_deleted",
                "tokens_before": folds[-1]["tokens_after"] if folds else 0,
                "tokens_after": 0,
                "num_rejected": 0,
                "num_forgotten": len(conversation.summary.splitlines()),
            }
            conversation.summary_dropped = [*folds, emptied]
            conversation.summary = ""

    def _own(self, conversation_id: ConversationId) -> Select[Conversation]:
        return select(Conversation).where(
            Conversation.id == conversation_id, Conversation.tenant_id == self._tenant_id
        )

    def get_own(self, conversation_id: ConversationId) -> Conversation:
        """As `get`, but deleted ones too: a question that was accepted is answered."""
        return self._require(self._own(conversation_id), conversation_id)

    def _live(self, conversation_id: ConversationId) -> Select[Conversation]:
        return self._own(conversation_id).where(Conversation.deleted_at.is_(None))

    def _hold(self, conversation_id: ConversationId) -> Conversation:
        """As `get`; nobody else takes a turn before this transaction ends."""
        query = self._live(conversation_id).with_for_update().execution_options(populate_existing=True)
        return self._require(query, conversation_id)

    def _require(self, query: Select[Conversation], conversation_id: ConversationId) -> Conversation:
        found = self._session.scalar(query)
        if found is None:
            raise NotFound(
                f"There is no conversation {conversation_id}.",
                remedy="List yours with GET /v1/conversations, or begin one with POST.",
                conversation_id=conversation_id,
            )
        return found

    def _require_finished(self, conversation: Conversation) -> None:
        last = self._session.execute(
            select(Answer.id, Job.status, Job.id)
            .join(Job, Job.id == Answer.job_id)
            .where(
                Answer.tenant_id == self._tenant_id,
                Answer.conversation_id == conversation.id,
                Answer.turn == conversation.num_turns,
            )
        ).first()
        if last is None or last[1] in FINAL_STATUSES:
            return
        answer_id, status, job_id = last
        raise Conflict(
            f"Turn {conversation.num_turns} of conversation {conversation.id} is still {status}.",
            remedy=f"Wait for it with GET /v1/answers/{answer_id}/events, or stop it with "
            f"POST /v1/jobs/{job_id}/cancel, and ask again.",
            conversation_id=conversation.id,
            answer_id=answer_id,
            job_id=job_id,
        )
