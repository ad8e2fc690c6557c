"""How answers came to be."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, String, cast, delete, select
from sqlalchemy.orm import Session

from core.clock import utc_now
from core.errors import NotFound
from core.ids import AnswerId, CollectionId, DocumentId, TenantId
from storage.models import Answer, AnswerTrace
from storage.trace_redaction import redact


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
        row = self.find(answer_id)
        if row is None:
            row = AnswerTrace(answer_id=answer_id, tenant_id=self._tenant_id)
            self._session.add(row)
        row.trace, row.redacted_at = trace, utc_now() if is_redacted else None
        row.holds_text = trace["detail"] == "full" and not is_redacted  # a light one has no text
        self._session.flush()

    def add_attention(self, answer_id: AnswerId, found: dict[str, Any]) -> None:
        """Put it into the trace as it is now: what was redacted meanwhile stays so.

        Raises:
            NotFound: there is none any more.
        """
        self.get(answer_id)
        row = self._locked(answer_id)
        row.trace = row.trace | {"attention": found}
        self._session.flush()

    def redact(self, row: AnswerTrace) -> None:
        """Take texts and tokens out of it for good; its numbers stay."""
        row = self._locked(AnswerId(row.answer_id))
        row.trace = redact(row.trace)
        row.redacted_at = row.redacted_at or utc_now()
        row.holds_text = False
        self._session.flush()

    def _locked(self, answer_id: AnswerId) -> AnswerTrace:
        """The trace as nobody else changes it: a trace is written as a whole."""
        query = select(AnswerTrace).where(
            AnswerTrace.answer_id == answer_id, AnswerTrace.tenant_id == self._tenant_id
        )
        found = self._session.scalars(query.with_for_update().execution_options(populate_existing=True))
        return found.one()

    def forget_document(self, document_id: DocumentId) -> None:
        """Redact the traces that hold text of a document. It is named wherever it was read."""
        self._redact_full(cast(AnswerTrace.trace, String).contains(document_id, autoescape=True))

    def forget_collection(self, collection_id: CollectionId) -> None:
        """Redact the traces of all answers about a collection."""
        answers = select(Answer.id).where(
            Answer.tenant_id == self._tenant_id, Answer.collection_id == collection_id
        )
        self._redact_full(AnswerTrace.answer_id.in_(answers))

    def _redact_full(self, condition: ColumnElement[bool]) -> None:
        query = select(AnswerTrace).where(
            AnswerTrace.tenant_id == self._tenant_id, AnswerTrace.holds_text.is_(True), condition
        )
        for row in self._session.scalars(query.with_for_update()):
            self.redact(row)


def forget_traces(session: Session, *, before: datetime) -> int:
    """Delete all tenants' traces that were begun before a moment; how many. Answers stay."""
    result = session.execute(delete(AnswerTrace).where(AnswerTrace.created_at < before))
    return int(result.rowcount)  # type: ignore[attr-defined]  # a delete's result has one
