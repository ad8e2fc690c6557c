"""Evaluations and their questions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import String, cast, delete, func, select

from core.clock import utc_now
from core.errors import Conflict
from core.ids import AnswerId, CollectionId, ConversationId, EvaluationId, JobId, new_id
from storage.answers import ANSWER_KIND, AnswerRepository
from storage.composites import CompositeRepository
from storage.conversations import ConversationRepository
from storage.models import Evaluation, EvaluationItem, Job, LedgerEntry


@dataclass(frozen=True, slots=True)
class StageTokens:
    """Tokens of each stage that an answer is billed for, and those of attempts that failed."""

    billed: Mapping[str, int]
    burned: int


class EvaluationRepository(CompositeRepository[Evaluation, EvaluationItem, EvaluationId]):
    """Sees only its tenant's evaluations; a part for each question."""

    model, part = Evaluation, EvaluationItem
    noun, plural = "evaluation", "evaluations"

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
        self._add_parts(rows)
        return evaluation

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

    # ---- questions -----------------------------------------------------------------------

    def list_open(self, evaluation_id: EvaluationId, *, limit: int) -> Sequence[EvaluationItem]:
        """The first `limit` questions that have neither metrics nor an error.

        They are asked in order, so those being answered come before those not asked yet.
        """
        # PostgreSQL compares no two values of type json, only their texts.
        is_open = cast(EvaluationItem.metrics, String) == "{}", EvaluationItem.error.is_(None)
        return self._list_parts(evaluation_id, *is_open, limit=limit)

    def set_item(self, evaluation_id: EvaluationId, position: int, **values: Any) -> None:
        self._set_part(evaluation_id, EvaluationItem.position == position, **values)

    def count_done(self, evaluation_id: EvaluationId, num_more: int) -> None:
        """Count so many questions more as done."""
        self._set(evaluation_id, num_done=Evaluation.num_done + num_more)

    def complete(self, evaluation_id: EvaluationId, *, report: dict[str, Any], at: datetime) -> None:
        self._set(evaluation_id, report=report, finished_at=at)

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
