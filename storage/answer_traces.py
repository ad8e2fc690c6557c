"""How answers came to be."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from core.clock import utc_now
from core.errors import NotFound
from core.ids import AnswerId, TenantId
from storage.models import AnswerTrace


class AnswerTraceRepository:
    """Sees only its tenant's traces."""

    def __init__(self, session: Session, tenant_id: TenantId) -> None:
        self._session = session
        self._tenant_id = tenant_id

    def find(self, answer_id: AnswerId) -> AnswerTrace | None:
        return self._session.scalar(
            select(AnswerTrace).where(
                AnswerTrace.answer_id == answer_id, AnswerTrace.tenant_id == self._tenant_id
            )
        )

    def get(self, answer_id: AnswerId) -> AnswerTrace:
        """Raises `NotFound` for an answer that is unknown, foreign, or has no trace."""
        found = self.find(answer_id)
        if found is None:
            raise NotFound(
                f"Answer {answer_id} has no trace.",
                remedy="It has one once it has ended, unless traces are off (LONGLEAF_ASK__TRACE) or were "
                "dropped after LONGLEAF_ASK__TRACE_DAYS.",
                id=answer_id,
            )
        return found

    def save(self, answer_id: AnswerId, trace: dict[str, Any], *, is_redacted: bool = False) -> None:
        """Store it as the answer's only trace."""
        redacted_at = utc_now() if is_redacted else None
        found = self.find(answer_id)
        if found is None:
            self._session.add(
                AnswerTrace(
                    answer_id=answer_id, tenant_id=self._tenant_id, trace=trace, redacted_at=redacted_at
                )
            )
        else:
            found.trace, found.redacted_at = trace, redacted_at
        self._session.flush()


def forget_traces(session: Session, *, before: datetime) -> int:
    """Delete all tenants' traces that were begun before a moment; how many. Answers stay."""
    result = session.execute(delete(AnswerTrace).where(AnswerTrace.created_at < before))
    return int(result.rowcount)  # type: ignore[attr-defined]  # a delete's result has one
