"""From questions with known answers to a report.

    question ─▶ asked like any other, as a job of its own ─▶ answered ─▶ scored ─▶ report

The evaluation's own job asks a few questions at a time and looks for their ends. It gives its
worker up after each slice, and a worker that dies loses nothing: every question remembers its answer.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import structlog
from sqlalchemy.orm import Session

from core.clock import utc_now
from core.errors import BudgetHeld
from core.ids import AnswerId, CollectionId, ConversationId, DocumentId, EvaluationId, KeyId
from evaluation.registration import MAX_IN_FLIGHT
from evaluation.report import WORK, summarize
from evaluation.scoring import CitedSpan, GivenAnswer, Score, Span, score_answer
from generation.questions import QuestionEstimate, QuestionParameters, register_question
from storage.conversations import ConversationRepository, NextTurn
from storage.database import Database
from storage.documents import DocumentRepository
from storage.evaluations import EvaluationRepository, StageTokens
from storage.job_run import JobRun, RunOutcome
from storage.job_states import FINAL_STATUSES
from storage.models import Answer, Evaluation, EvaluationItem, Job
from tenancy.principal import Principal, Scope

log = structlog.get_logger()

SLICE_SECONDS = 1.0
"""Short, since it mostly waits, and others of its worker's queues have work to do."""


class EvaluationPipeline:
    """Runs jobs of kind `evaluate`."""

    def __init__(
        self,
        database: Database,
        *,
        max_attempts: int,
        estimate: QuestionEstimate | None = None,
        max_in_flight: int = MAX_IN_FLIGHT,
        slice_seconds: float = SLICE_SECONDS,
        poll_seconds: float = 0.1,
    ) -> None:
        self._database = database
        self._max_attempts = max_attempts
        self._estimate = estimate
        self._max_in_flight = max_in_flight
        self._slice_seconds = slice_seconds
        self._poll_seconds = poll_seconds

    def run(self, run: JobRun) -> RunOutcome:
        """Ask and score until all questions are done, or until the slice ends."""
        deadline = time.monotonic() + self._slice_seconds
        evaluation = self._load(run)
        while True:
            run.checkpoint()
            being_answered = self._score_answered(run, evaluation)
            if not self._ask_more(run, evaluation, num_free=self._max_in_flight - being_answered):
                self._finish(run, evaluation)
                return "done"
            if time.monotonic() >= deadline:
                return "yielded"
            time.sleep(self._poll_seconds)

    def _load(self, run: JobRun) -> Evaluation:
        with self._database.read() as session:
            found = EvaluationRepository(session, run.job.tenant_id).find_by_job(run.job.id)
        assert found is not None  # made in the job's own transaction, and never deleted
        return found

    # ---- scoring -------------------------------------------------------------------------

    def _score_answered(self, run: JobRun, evaluation: Evaluation) -> int:
        """Score every asked question whose answer has ended; how many are still being answered."""
        asked = [item for item in self._list_open(run, evaluation) if "answer_id" in item.result]
        with self._database.read() as session:
            ids = [AnswerId(item.result["answer_id"]) for item in asked]
            answers = EvaluationRepository(session, run.job.tenant_id).answers(ids)
        ended = [
            (item, *answers[AnswerId(item.result["answer_id"])])
            for item in asked
            if answers[AnswerId(item.result["answer_id"])][1].status in FINAL_STATUSES
        ]
        for item, answer, job in ended:
            self._store(run, evaluation, item, self._outcome(run, item, answer, job))
        return len(asked) - len(ended)

    def _list_open(self, run: JobRun, evaluation: Evaluation) -> Sequence[EvaluationItem]:
        with self._database.read() as session:
            return EvaluationRepository(session, run.job.tenant_id).list_open(
                EvaluationId(evaluation.id), limit=self._max_in_flight
            )

    def _outcome(self, run: JobRun, item: EvaluationItem, answer: Answer, job: Job) -> dict[str, Any]:
        """The columns of a question that is done."""
        asked = {"answer_id": answer.id, "job_id": job.id}
        if job.status != "succeeded":
            code = job.error_code or "job_cancelled"
            detail = job.error_detail or f"Answer {answer.id} was {job.status}."
            return {"result": asked, "error": {"code": code, "detail": detail}}
        with self._database.read() as session:
            given = _given_answer(DocumentRepository(session, run.job.tenant_id), answer)
            tokens = EvaluationRepository(session, run.job.tenant_id).stage_tokens(AnswerId(answer.id))
        score = score_answer(item.question, given)
        return {
            "result": asked | _result(answer, given, score, tokens),
            "metrics": score.metrics | _work(answer),
            "cost": answer.cost,
        }

    def _store(
        self, run: JobRun, evaluation: Evaluation, item: EvaluationItem, columns: dict[str, Any]
    ) -> None:
        with self._database.write() as session:
            run.confirm(session)
            evaluations = EvaluationRepository(session, run.job.tenant_id)
            identifier = EvaluationId(evaluation.id)
            evaluations.set_item(identifier, item.position, **columns)
            evaluations.count_done(identifier, 1)
            done = evaluations.get(identifier)
            session.refresh(done)
            progress = {"questions_done": done.num_done, "questions_total": done.num_questions}
            run.set_progress(session, progress)

    # ---- asking --------------------------------------------------------------------------

    def _ask_more(self, run: JobRun, evaluation: Evaluation, *, num_free: int) -> bool:
        """Ask the next few questions; whether any question is still open."""
        open_items = self._list_open(run, evaluation)
        waiting = [item for item in open_items if "answer_id" not in item.result]
        for number, item in enumerate(waiting[:num_free]):
            try:
                self._ask(run, evaluation, item)
            except BudgetHeld:
                if number == 0 and num_free == self._max_in_flight:
                    raise
                break  # by our own questions, it may be: go on when they are answered
        return bool(open_items)

    def _ask(self, run: JobRun, evaluation: Evaluation, item: EvaluationItem) -> None:
        """Make the question's answer and remember it, in one transaction: it is asked once."""
        key_id = run.job.key_id
        assert key_id is not None  # evaluations are made through the API, which knows the caller's key
        principal = Principal(run.job.tenant_id, KeyId(key_id), frozenset({Scope.ASK}))
        with self._database.write() as session:
            run.confirm(session)
            answer = register_question(
                session,
                principal,
                CollectionId(evaluation.collection_id),
                item.question["question"],
                QuestionParameters.of_json(evaluation.parameters),
                max_attempts=self._max_attempts,
                turn=_conversation(session, principal, evaluation, item.question["history"]),
                background=True,
                part_of=run.job.id,
                estimate=self._estimate,
            )
            EvaluationRepository(session, run.job.tenant_id).set_item(
                EvaluationId(evaluation.id),
                item.position,
                result={"answer_id": answer.id, "job_id": answer.job_id},
            )

    def _finish(self, run: JobRun, evaluation: Evaluation) -> None:
        with self._database.write() as session:
            run.succeed(session)
            evaluations = EvaluationRepository(session, run.job.tenant_id)
            identifier = EvaluationId(evaluation.id)
            items = evaluations.all_items(identifier)
            report = summarize(items, num_questions=evaluation.num_questions)
            evaluations.complete(identifier, report=report, at=utc_now())
        log.info("evaluation.finished", evaluation_id=evaluation.id, num_questions=evaluation.num_questions)


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
