"""From a file of questions to their answers, as one offline job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

import structlog
from sqlalchemy.orm import Session

from core.clock import utc_now
from core.ids import AnswerId, BatchId, CollectionId, TenantId
from generation.batches.registration import end_batch, end_open_lines
from generation.question_sets.runner import MAX_IN_FLIGHT, Store, advance, asker_of
from generation.questions import QuestionEstimate, QuestionParameters, register_question
from storage.batches import NOTHING_SPENT, BatchRepository, ItemOutcome, StoppedBy
from storage.database import Database
from storage.job_run import JobRun, RunOutcome
from storage.models import Answer, Batch, BatchItem, Job

log = structlog.get_logger()


class BatchPipeline:
    """Runs jobs of kind `batch`."""

    def __init__(
        self,
        database: Database,
        *,
        max_attempts: int,
        estimate: QuestionEstimate | None = None,
        max_in_flight: int = MAX_IN_FLIGHT,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._database = database
        self._max_attempts = max_attempts
        self._estimate = estimate
        self._max_in_flight = max_in_flight
        self._now = now

    def run(self, run: JobRun) -> RunOutcome:
        """Note what was answered and ask the next few, until all is answered, or no more is to be asked."""
        batch = self._load(run)
        if batch.expires_at is not None and self._now() >= batch.expires_at:
            self._finish(run, batch)
            return "done"
        questions = _Questions(run, batch, self._max_attempts, self._estimate)
        if not advance(run, self._database, questions, max_in_flight=self._max_in_flight):
            return "postponed"
        self._finish(run, batch)
        return "done"

    def _load(self, run: JobRun) -> Batch:
        with self._database.read() as session:
            found = BatchRepository(session, run.job.tenant_id).find_by_job(run.job.id)
        assert found is not None  # made in the job's own transaction, and never deleted
        return found

    def _finish(self, run: JobRun, batch: Batch) -> None:
        """End it, with whatever is open told why it is not answered."""
        tenant_id, identifier = run.job.tenant_id, BatchId(batch.id)
        with self._database.write() as session:
            run.succeed(session)
            batches = BatchRepository(session, tenant_id)
            stopped_by: StoppedBy | None = None
            if batches.list_open(identifier, limit=1):
                stopped_by = "max_cost" if _has_spent_all(session, batch) else "expired"
                detail = _WHY_STOPPED[stopped_by].format(batch=batch)
                end_open_lines(session, tenant_id, identifier, code=f"batch_{stopped_by}", detail=detail)
            end_batch(session, tenant_id, identifier, at=self._now(), stopped_by=stopped_by)
        log.info(
            "batch.finished", batch_id=batch.id, num_questions=batch.num_questions, stopped_by=stopped_by
        )


_WHY_STOPPED = {
    "expired": "Batch {batch.id} expired before this question was answered.",
    "max_cost": "Batch {batch.id} had cost its most, {batch.max_cost:f}, before this question was asked.",
}


class _Questions:
    """A batch's lines as a set of questions. One whose cost has reached its most asks no more."""

    def __init__(
        self, run: JobRun, batch: Batch, max_attempts: int, estimate: QuestionEstimate | None
    ) -> None:
        self._run = run
        self._batch = batch
        self._id = BatchId(batch.id)
        self._max_attempts = max_attempts
        self._estimate = estimate

    def list_open(self, session: Session, *, limit: int) -> Sequence[BatchItem]:
        batches = self._batches(session)
        if _has_spent_all(session, self._batch):
            return batches.list_asked(self._id)
        return batches.list_open(self._id, limit=limit)

    def answer_id(self, item: BatchItem) -> AnswerId | None:
        return None if item.answer_id is None else AnswerId(item.answer_id)

    def ask(self, session: Session, item: BatchItem) -> None:
        answer = register_question(
            session,
            asker_of(self._run),
            CollectionId(self._batch.collection_id),
            item.question,
            QuestionParameters.of_json(item.parameters),
            max_attempts=self._max_attempts,
            part_of=self._run.job.id,
            estimate=self._estimate,
        )
        self._batches(session).set_answer(self._id, item.position, AnswerId(answer.id))

    def settle(self, item: BatchItem, answer: Answer, job: Job) -> Store:
        outcome: ItemOutcome = "completed" if job.status == "succeeded" else "failed"
        return partial(self._store, position=item.position, outcome=outcome)

    def _store(self, session: Session, *, position: int, outcome: ItemOutcome) -> None:
        batches = self._batches(session)
        batches.settle(self._id, position, outcome)
        batch = batches.get(self._id)
        progress = {
            "questions_done": batch.num_completed + batch.num_failed,
            "questions_total": batch.num_questions,
        }
        self._run.set_progress(session, progress)

    def _batches(self, session: Session) -> BatchRepository:
        return BatchRepository(session, self._run.job.tenant_id)


def _has_spent_all(session: Session, batch: Batch) -> bool:
    if batch.max_cost is None:
        return False
    identifier = BatchId(batch.id)
    batches = BatchRepository(session, TenantId(batch.tenant_id))
    return batches.spending([identifier]).get(identifier, NOTHING_SPENT).cost >= batch.max_cost
