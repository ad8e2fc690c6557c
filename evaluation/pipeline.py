"""From questions with known answers to a report.

    question ─▶ asked like any other, as a job of its own ─▶ answered ─▶ scored ─▶ report

The evaluation's own job has its questions asked as any set of questions is, see
`generation.question_sets.runner`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import structlog
from sqlalchemy.orm import Session

from core.clock import utc_now
from core.ids import AnswerId, CollectionId, ConversationId, DocumentId, EvaluationId
from evaluation.report import WORK, summarize
from evaluation.scoring import CitedSpan, GivenAnswer, Score, Span, score_answer
from generation.question_sets.runner import MAX_IN_FLIGHT, Store, advance, asker_of
from generation.questions import QuestionEstimate, QuestionParameters, register_question
from storage.conversations import ConversationRepository, NextTurn
from storage.database import Database
from storage.documents import DocumentRepository
from storage.evaluations import EvaluationRepository, StageTokens
from storage.job_run import JobRun, RunOutcome
from storage.models import Answer, Evaluation, EvaluationItem, Job
from tenancy.principal import Principal

log = structlog.get_logger()


class EvaluationPipeline:
    """Runs jobs of kind `evaluate`."""

    def __init__(
        self,
        database: Database,
        *,
        max_attempts: int,
        estimate: QuestionEstimate | None = None,
        max_in_flight: int = MAX_IN_FLIGHT,
    ) -> None:
        self._database = database
        self._max_attempts = max_attempts
        self._estimate = estimate
        self._max_in_flight = max_in_flight

    def run(self, run: JobRun) -> RunOutcome:
        """Score what was answered and ask the next few, until all questions are done."""
        evaluation = self._load(run)
        questions = _Questions(self._database, run, evaluation, self._max_attempts, self._estimate)
        if not advance(run, self._database, questions, max_in_flight=self._max_in_flight):
            return "postponed"
        self._finish(run, evaluation)
        return "done"

    def _load(self, run: JobRun) -> Evaluation:
        with self._database.read() as session:
            found = EvaluationRepository(session, run.job.tenant_id).find_by_job(run.job.id)
        assert found is not None  # made in the job's own transaction, and kept while that is open
        return found

    def _finish(self, run: JobRun, evaluation: Evaluation) -> None:
        with self._database.write() as session:
            run.succeed(session)
            evaluations = EvaluationRepository(session, run.job.tenant_id)
            identifier = EvaluationId(evaluation.id)
            items = evaluations.all_parts(identifier)
            report = summarize(items, num_questions=evaluation.num_questions)
            evaluations.complete(identifier, report=report, at=utc_now())
        log.info("evaluation.finished", evaluation_id=evaluation.id, num_questions=evaluation.num_questions)


class _Questions:
    """An evaluation's questions: asked with their histories, settled by scoring."""

    def __init__(
        self,
        database: Database,
        run: JobRun,
        evaluation: Evaluation,
        max_attempts: int,
        estimate: QuestionEstimate | None,
    ) -> None:
        self._database = database
        self._run = run
        self._evaluation = evaluation
        self._id = EvaluationId(evaluation.id)
        self._max_attempts = max_attempts
        self._estimate = estimate

    def list_open(self, session: Session, *, limit: int) -> Sequence[EvaluationItem]:
        return self._evaluations(session).list_open(self._id, limit=limit)

    def answer_id(self, item: EvaluationItem) -> AnswerId | None:
        return item.result.get("answer_id")

    def ask(self, session: Session, item: EvaluationItem) -> None:
        principal = asker_of(self._run)
        answer = register_question(
            session,
            principal,
            CollectionId(self._evaluation.collection_id),
            item.question["question"],
            QuestionParameters.of_json(self._evaluation.parameters),
            max_attempts=self._max_attempts,
            turn=_conversation(session, principal, self._evaluation, item.question["history"]),
            part_of=self._run.job.id,
            estimate=self._estimate,
        )
        asked = {"answer_id": answer.id, "job_id": answer.job_id}
        self._evaluations(session).set_item(self._id, item.position, result=asked)

    def settle(self, item: EvaluationItem, answer: Answer, job: Job) -> Store:
        return partial(self._store, position=item.position, columns=self._outcome(item, answer, job))

    def _store(self, session: Session, *, position: int, columns: dict[str, Any]) -> None:
        evaluations = self._evaluations(session)
        evaluations.set_item(self._id, position, **columns)
        evaluations.count_done(self._id, 1)
        done = evaluations.get(self._id)
        session.refresh(done)
        progress = {"questions_done": done.num_done, "questions_total": done.num_questions}
        self._run.set_progress(session, progress)

    def _outcome(self, item: EvaluationItem, answer: Answer, job: Job) -> dict[str, Any]:
        """The columns of a question that is done."""
        asked = {"answer_id": answer.id, "job_id": job.id}
        if job.status != "succeeded":
            code = job.error_code or "job_cancelled"
            detail = job.error_detail or f"Answer {answer.id} was {job.status}."
            return {"result": asked, "error": {"code": code, "detail": detail}}
        with self._database.read() as session:
            given = _given_answer(DocumentRepository(session, self._run.job.tenant_id), answer)
            tokens = self._evaluations(session).stage_tokens(AnswerId(answer.id))
        score = score_answer(item.question, given)
        return {
            "result": asked | _result(answer, given, score, tokens),
            "metrics": score.metrics | _work(answer),
            "cost": answer.cost,
        }

    def _evaluations(self, session: Session) -> EvaluationRepository:
        return EvaluationRepository(session, self._run.job.tenant_id)


def _conversation(
    session: Session, principal: Principal, evaluation: Evaluation, history: Sequence[dict[str, str]]
) -> NextTurn | None:
    """A conversation that went as `history` says, for the one question that follows it.

    It is deleted from the start: nobody lists it, and a question that was accepted is answered.
    """
    if not history:
        return None
    conversations = ConversationRepository(session, principal.tenant_id)
    conversation = conversations.create(CollectionId(evaluation.collection_id), title=evaluation.name)
    identifier = ConversationId(conversation.id)
    EvaluationRepository(session, principal.tenant_id).add_past_turns(
        identifier, [(turn["question"], turn["answer"]) for turn in history]
    )
    turn = conversations.take_turn(identifier)
    conversations.delete(identifier)
    return turn


def _given_answer(documents: DocumentRepository, answer: Answer) -> GivenAnswer:
    return GivenAnswer(
        outcome=answer.outcome or "",
        text=answer.text or "",
        passages=[_span(documents, stored) for stored in answer.passages],
        citations=[CitedSpan(_span(documents, stored), stored["quote"]) for stored in answer.citations],
        short_text=(answer.short_answer or {}).get("text", ""),
    )


def _span(documents: DocumentRepository, stored: dict[str, Any]) -> Span:
    document_id, start, end = DocumentId(stored["document_id"]), stored["start"], stored["end"]
    return Span(
        document_id=document_id,
        document_name=stored["document_name"],
        start=start,
        end=end,
        first_page=stored["first_page"] or 0,
        last_page=stored["last_page"] or 0,
        text=documents.read_text(document_id, start, end),
    )


def _result(answer: Answer, given: GivenAnswer, score: Score, tokens: StageTokens) -> dict[str, Any]:
    """A copy of what was answered: documents and answers may go, the report stays."""
    return {
        "outcome": answer.outcome,
        "text": answer.text,
        "mode": answer.mode,
        "model": answer.model,
        "warnings": answer.warnings,
        "citations": [
            {
                "number": stored["number"],
                "document_id": stored["document_id"],
                "document_name": stored["document_name"],
                "start": stored["start"],
                "end": stored["end"],
                "first_page": stored["first_page"],
                "last_page": stored["last_page"],
                "quote": stored["quote"],
                "is_verbatim": citation.is_verbatim,
                "supports_gold": supports,
            }
            for stored, citation, supports in zip(
                answer.citations, given.citations, score.supports, strict=True
            )
        ],
        "num_passages": len(answer.passages),
        "stage_tokens": dict(tokens.billed),
        "burned_tokens": tokens.burned,
        "currency": answer.currency,
    }


def _work(answer: Answer) -> dict[str, float]:
    known = {
        "prompt_tokens": answer.prompt_tokens,
        "cached_tokens": answer.cached_tokens,
        "completion_tokens": answer.completion_tokens,
        **answer.timings,
    }
    return {name: known[name] for name in WORK if known.get(name) is not None}
