"""Accepting an evaluation: one transaction makes its row, its questions and its job.

Used by the API and the relay, so it imports no model.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.orm import Session

from accounting.holds import reserve
from core.clock import utc_now
from core.ids import AnswerId, CollectionId, EvaluationId, JobId, TenantId
from evaluation.questions import GoldQuestion
from evaluation.report import summarize
from generation.question_sets.runner import cancel_answers
from generation.questions import QuestionParameters
from storage.collections import CollectionRepository
from storage.evaluations import EvaluationRepository
from storage.jobs import JobRepository
from storage.models import Evaluation
from tenancy.principal import Principal

EVALUATE_KIND = "evaluate"


def register_evaluation(
    session: Session,
    principal: Principal,
    collection_id: CollectionId,
    questions: Sequence[GoldQuestion],
    *,
    name: str,
    parameters: QuestionParameters,
    max_attempts: int,
) -> Evaluation:
    """A queued evaluation, in the caller's transaction.

    Raises:
        NotFound: no such collection of the tenant.
        BudgetExceeded: a budget that it counts against has nothing left.
    """
    CollectionRepository(session, principal.tenant_id).get(collection_id)
    job = JobRepository(session, principal.tenant_id).create(
        EVALUATE_KIND,
        queue="batch",
        payload={},
        collection_id=collection_id,
        key_id=principal.key_id,
        max_attempts=max_attempts,
    )
    reserve(session, job)
    return EvaluationRepository(session, principal.tenant_id).create(
        JobId(job.id),
        collection_id,
        name=name,
        parameters=parameters.as_json(),
        questions=[question.as_json(position=i) for i, question in enumerate(questions)],
    )


def close_evaluation(session: Session, tenant_id: TenantId, job_id: JobId) -> None:
    """What is left to do for an evaluation whose job ended without success.

    Its unfinished answers are cancelled, and it keeps the report of what was scored. Does nothing
    for a job of another kind, nor a second time.
    """
    evaluations = EvaluationRepository(session, tenant_id)
    evaluation = evaluations.find_by_job(job_id)
    if evaluation is None or evaluation.finished_at is not None:
        return
    identifier = EvaluationId(evaluation.id)
    asked = [
        AnswerId(item.result["answer_id"])
        for item in evaluations.list_open(identifier, limit=evaluation.num_questions)
        if "answer_id" in item.result
    ]
    cancel_answers(session, tenant_id, asked)
    report = summarize(evaluations.all_parts(identifier), num_questions=evaluation.num_questions)
    evaluations.complete(identifier, report=report, at=utc_now())
