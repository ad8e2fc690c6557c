"""What was asked of a collection lately, for planning what comes next."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.ids import AnswerId, CollectionId, ConversationId, TenantId
from storage.models import Answer


@dataclass(frozen=True, slots=True)
class RecentAnswer:
    """A finished answer: the passages found for it, and the steps that led to it."""

    conversation_id: ConversationId | None
    passages: list[dict[str, Any]]
    steps: dict[str, Any]


def list_recent_answers(
    session: Session,
    tenant_id: TenantId,
    collection_id: CollectionId,
    *,
    since: datetime,
    limit: int,
    excluding: AnswerId,
) -> list[RecentAnswer]:
    """The collection's answers finished since then, newest first."""
    query = (
        select(Answer.conversation_id, Answer.passages, Answer.steps)
        .where(
            Answer.tenant_id == tenant_id,
            Answer.collection_id == collection_id,
            Answer.created_at >= since,
            Answer.mode.is_not(None),  # written by the pipeline, and no past turn that came with a question
            Answer.id != excluding,
        )
        .order_by(Answer.created_at.desc(), Answer.id.desc())
        .limit(limit)
    )
    return [
        RecentAnswer(
            ConversationId(row.conversation_id) if row.conversation_id else None, row.passages, row.steps
        )
        for row in session.execute(query)
    ]
