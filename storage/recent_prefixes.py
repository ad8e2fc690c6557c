"""How the prompts of recent answers began, for planning those that come next."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.ids import CollectionId, ConversationId, TenantId
from storage.models import Answer

_LONGEST_QUESTION = timedelta(minutes=10)
"""An answer finished since some moment was accepted at most so long before: the index is by that time."""


def list_recent_prefixes(
    session: Session,
    tenant_id: TenantId,
    collection_id: CollectionId,
    *,
    finished_after: datetime,
    excluding_process: str,
    limit: int,
) -> list[Mapping[str, Any]]:
    """The step `prefix` of the collection's answers finished since then by other processes, newest last."""
    query = (
        select(Answer.steps["prefix"])
        .where(
            Answer.tenant_id == tenant_id,
            Answer.collection_id == collection_id,
            Answer.created_at >= finished_after - _LONGEST_QUESTION,
            Answer.finished_at > finished_after,
        )
        .order_by(Answer.finished_at.desc(), Answer.id.desc())
        .limit(limit)
    )
    found = [prefix for prefix in session.scalars(query) if prefix]
    return [prefix for prefix in reversed(found) if prefix.get("process") != excluding_process]


def find_last_prefix(
    session: Session, tenant_id: TenantId, conversation_id: ConversationId, *, before: int
) -> Mapping[str, Any] | None:
    """The step `prefix` of the conversation's newest turn before that one which has an answer."""
    query = (
        select(Answer.steps["prefix"])
        .where(
            Answer.tenant_id == tenant_id,
            Answer.conversation_id == conversation_id,
            Answer.turn < before,
            Answer.finished_at.is_not(None),
        )
        .order_by(Answer.turn.desc())
        .limit(1)
    )
    found: Mapping[str, Any] | None = session.scalar(query)
    return found or None
