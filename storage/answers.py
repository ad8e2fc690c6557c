"""Questions and their answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from core.errors import InvalidInput, NotFound
from core.ids import AnswerId, CollectionId, ConversationId, JobId, TenantId, new_id
from storage.models import Answer, Job
from storage.paging import Page, PageRequest, paginate

ANSWER_KIND = "answer"
"""The kind of an answer's job."""


class AnswerRepository:
    """Sees only its tenant's answers."""

    def __init__(self, session: Session, tenant_id: TenantId) -> None:
        self._session = session
        self._tenant_id = tenant_id

    def create(
        self,
        job_id: JobId,
        collection_id: CollectionId,
        *,
        question: str,
        parameters: dict[str, Any],
        conversation_id: ConversationId | None = None,
        turn: int | None = None,
    ) -> Answer:
        """An answer yet to be written; in a conversation, of its turn `turn`."""
        answer = Answer(
            id=new_id("ans"),
            tenant_id=self._tenant_id,
            collection_id=collection_id,
            job_id=job_id,
            conversation_id=conversation_id,
            turn=turn,
            question=question,
            parameters=parameters,
            citations=[],
            passages=[],
            samples={},
            warnings=[],
            timings={},
        )
        self._session.add(answer)
        self._session.flush()
        return answer

    def get(self, answer_id: AnswerId) -> Answer:
        """Raises `NotFound` for an unknown or foreign id."""
        return self._one(Answer.id == answer_id, answer_id)

    def get_by_job(self, job_id: JobId) -> Answer:
        return self._one(Answer.job_id == job_id, job_id)

    def _one(self, condition: Any, name: str) -> Answer:
        found = self._session.scalar(select(Answer).where(condition, Answer.tenant_id == self._tenant_id))
        if found is None:
            raise NotFound(f"There is no answer {name}.", remedy="List yours with GET /v1/answers.", id=name)
        return found

    def with_jobs(self, answer_ids: Sequence[AnswerId]) -> dict[AnswerId, tuple[Answer, Job]]:
        """The answers and their jobs as they stand; unknown ids are absent."""
        rows = self._session.execute(
            select(Answer, Job)
            .join(Job, Job.id == Answer.job_id)
            .where(Answer.tenant_id == self._tenant_id, Answer.id.in_(answer_ids))
            .execution_options(populate_existing=True)
        )
        return {AnswerId(answer.id): (answer, job) for answer, job in rows}

    def list_page(self, page: PageRequest, *, collection_id: CollectionId | None = None) -> Page[Answer]:
        query = select(Answer).where(Answer.tenant_id == self._tenant_id)
        if collection_id is not None:
            query = query.where(Answer.collection_id == collection_id)
        return paginate(self._session, query, Answer, page)

    def list_turns(self, conversation_id: ConversationId, page: PageRequest) -> Page[Answer]:
        """The conversation's answers by turn. The cursor is the last turn of the page before."""
        query = select(Answer).where(
            Answer.tenant_id == self._tenant_id, Answer.conversation_id == conversation_id
        )
        if page.cursor is not None:
            query = query.where(Answer.turn > _turn_of(page.cursor))
        rows = list(self._session.scalars(query.order_by(Answer.turn).limit(page.limit + 1)))
        items = rows[: page.limit]
        return Page(items, str(items[-1].turn) if len(rows) > page.limit else None)

    def complete(self, answer_id: AnswerId, **values: Any) -> None:
        """Write the finished answer's columns."""
        self._session.execute(
            update(Answer).where(Answer.id == answer_id, Answer.tenant_id == self._tenant_id).values(**values)
        )


def _turn_of(cursor: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", cursor):
        raise InvalidInput(
            "The cursor is not one that this list gave.",
            remedy="Leave it out to start from the first turn.",
        )
    return int(cursor)
