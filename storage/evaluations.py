"""Evaluations and their questions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import String, cast, delete, func, insert, select, update
from sqlalchemy.orm import Session

from core.clock import utc_now
from core.errors import Conflict, NotFound
from core.ids import AnswerId, CollectionId, ConversationId, EvaluationId, JobId, TenantId, new_id
from storage.answers import ANSWER_KIND, AnswerRepository
from storage.conversations import ConversationRepository
from storage.models import Collection, Evaluation, EvaluationItem, Job, LedgerEntry
from storage.paging import Page, PageRequest, paginate

_INSERT_ROWS = 500
_READ_ROWS = 500


@dataclass(frozen=True, slots=True)
class StageTokens:
    """Tokens of each stage that an answer is billed for, and those of attempts that failed."""

    billed: Mapping[str, int]
    burned: int


class EvaluationRepository:
    """Sees only its tenant's evaluations."""

    def __init__(self, session: Session, tenant_id: TenantId) -> None:
        self._session = session
        self._tenant_id = tenant_id

    def create(
        self,
        job_id: JobId,
        collection_id: CollectionId,
        *,
        name: str,
        parameters: dict[str, Any],
        questions: Sequence[dict[str, Any]],
    ) -> Evaluation:
        """An evaluation with its questions, none of them asked yet."""
        evaluation = Evaluation(
            id=new_id("eval"),
            tenant_id=self._tenant_id,
            collection_id=collection_id,
            job_id=job_id,
            name=name,
            parameters=parameters,
            num_questions=len(questions),
            num_done=0,
            report={},
        )
        self._session.add(evaluation)
        self._session.flush()
        rows = [
            {
                "evaluation_id": evaluation.id,
                "position": position,
                "tenant_id": self._tenant_id,
                "question": question,
                "result": {},
                "metrics": {},
            }
            for position, question in enumerate(questions)
        ]
        for i in range(0, len(rows), _INSERT_ROWS):
            self._session.execute(insert(EvaluationItem), rows[i : i + _INSERT_ROWS])
        return evaluation

    def get(self, evaluation_id: EvaluationId) -> Evaluation:
        """Raises `NotFound` for an unknown or foreign id."""
        found = self._session.scalar(
            select(Evaluation).where(Evaluation.id == evaluation_id, Evaluation.tenant_id == self._tenant_id)
        )
        if found is None:
            raise NotFound(
                f"There is no evaluation {evaluation_id}.",
                remedy="List yours with GET /v1/evaluations.",
                evaluation_id=evaluation_id,
            )
        return found

    def find_by_job(self, job_id: JobId) -> Evaluation | None:
        return self._session.scalar(
            select(Evaluation).where(Evaluation.job_id == job_id, Evaluation.tenant_id == self._tenant_id)
        )

    def list_page(self, page: PageRequest, *, collection_id: CollectionId | None = None) -> Page[Evaluation]:
        query = select(Evaluation).where(Evaluation.tenant_id == self._tenant_id)
        if collection_id is not None:
            query = query.where(Evaluation.collection_id == collection_id)
        return paginate(self._session, query, Evaluation, page)

    def delete(self, evaluation_id: EvaluationId) -> None:
        """With its questions and its report; the answers stay, and so does their bill.

        Raises:
            NotFound: an unknown or foreign id.
            Conflict: it has not ended.
        """
        evaluation = self.get(evaluation_id)
        if evaluation.finished_at is None:
            raise Conflict(
                f"Evaluation {evaluation_id} has not ended.",
                remedy=f"Wait for it, or cancel its job {evaluation.job_id} first.",
                evaluation_id=evaluation_id,
                job_id=evaluation.job_id,
            )
        self._session.execute(
            delete(Evaluation).where(Evaluation.id == evaluation_id, Evaluation.tenant_id == self._tenant_id)
        )

    def collection_name(self, evaluation: Evaluation) -> str:
        """Of the collection that was asked, deleted or not."""
        query = select(Collection.name).where(
            Collection.id == evaluation.collection_id, Collection.tenant_id == self._tenant_id
        )
        return self._session.scalar(query) or evaluation.collection_id

    # ---- questions -----------------------------------------------------------------------

    def list_items(
        self, evaluation_id: EvaluationId, *, first: int = 0, limit: int = _READ_ROWS
    ) -> Sequence[EvaluationItem]:
        """At most `limit` questions from position `first` on, in order."""
        return self._session.scalars(
            select(EvaluationItem)
            .where(
                EvaluationItem.evaluation_id == evaluation_id,
                EvaluationItem.tenant_id == self._tenant_id,
                EvaluationItem.position >= first,
            )
            .order_by(EvaluationItem.position)
            .limit(limit)
        ).all()

    def all_items(self, evaluation_id: EvaluationId) -> Iterator[EvaluationItem]:
        """Every question, in order, some hundreds at a time."""
        first = 0
        while rows := self.list_items(evaluation_id, first=first):
            yield from rows
            first = rows[-1].position + 1

    def list_open(self, evaluation_id: EvaluationId, *, limit: int) -> Sequence[EvaluationItem]:
        """The first `limit` questions that have neither metrics nor an error.

        They are asked in order, so those being answered come before those not asked yet.
        """
        return self._session.scalars(
            select(EvaluationItem)
            .where(
                EvaluationItem.evaluation_id == evaluation_id,
                EvaluationItem.tenant_id == self._tenant_id,
                # PostgreSQL compares no two values of type json, only their texts.
                cast(EvaluationItem.metrics, String) == "{}",
                EvaluationItem.error.is_(None),
            )
            .order_by(EvaluationItem.position)
            .limit(limit)
        ).all()

    def set_item(self, evaluation_id: EvaluationId, position: int, **values: Any) -> None:
        self._session.execute(
            update(EvaluationItem)
            .where(
                EvaluationItem.evaluation_id == evaluation_id,
                EvaluationItem.position == position,
                EvaluationItem.tenant_id == self._tenant_id,
            )
            .values(**values)
        )

    def count_done(self, evaluation_id: EvaluationId, num_more: int) -> None:
        """Count so many questions more as done."""
        self._set(evaluation_id, num_done=Evaluation.num_done + num_more)

    def complete(self, evaluation_id: EvaluationId, *, report: dict[str, Any], at: datetime) -> None:
        self._set(evaluation_id, report=report, finished_at=at)

    def _set(self, evaluation_id: EvaluationId, **values: Any) -> None:
        self._session.execute(
            update(Evaluation)
            .where(Evaluation.id == evaluation_id, Evaluation.tenant_id == self._tenant_id)
            .values(**values)
        )

    # ---- answers -------------------------------------------------------------------------

    def add_past_turns(self, conversation_id: ConversationId, turns: Sequence[tuple[str, str]]) -> None:
        """Have a new conversation begin with these questions and the answers given to them.

        Each is an answer like any other, whose job has nothing left to do: what reads a
        conversation's turns finds them. They cost nothing.
        """
        conversation = ConversationRepository(self._session, self._tenant_id).get(conversation_id)
        now = utc_now()
        for number, (question, text) in enumerate(turns, start=1):
            job = Job(
                id=new_id("job"),
                tenant_id=self._tenant_id,
                collection_id=conversation.collection_id,
                kind=ANSWER_KIND,
                queue="interactive",
                status="succeeded",
                payload={},
                progress={},
                attempt=0,
                max_attempts=1,
                finished_at=now,
            )
            self._session.add(job)
            self._session.flush()
            answers = AnswerRepository(self._session, self._tenant_id)
            answer = answers.create(
                JobId(job.id),
                CollectionId(conversation.collection_id),
                question=question,
                parameters={},
                conversation_id=conversation_id,
                turn=number,
            )
            answer.outcome, answer.text, answer.finished_at = "answered", text, now
        conversation.num_turns = len(turns)
        self._session.flush()

    def stage_tokens(self, answer_id: AnswerId) -> StageTokens:
        """What the ledger has for the answer."""
        rows = self._session.execute(
            select(LedgerEntry.stage, LedgerEntry.billed, func.sum(LedgerEntry.num_tokens))
            .where(LedgerEntry.tenant_id == self._tenant_id, LedgerEntry.source == answer_id)
            .group_by(LedgerEntry.stage, LedgerEntry.billed)
        )
        billed: dict[str, int] = defaultdict(int)
        burned = 0
        for stage, is_billed, num_tokens in rows:
            if is_billed:
                billed[stage] += int(num_tokens)
            else:
                burned += int(num_tokens)
        return StageTokens(dict(billed), burned)
