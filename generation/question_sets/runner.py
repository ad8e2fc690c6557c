"""Many questions in one job, a few at a time, behind those that somebody waits for.

    open ─▶ asked like any other, as a job of its own ─▶ answered ─▶ settled

A job that has asked waits without a worker: the end of each of its questions wakes it. Which question has
which answer is stored in the transaction that asks it, so a job that is killed asks nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeVar

from sqlalchemy.orm import Session

from core.errors import BudgetHeld, Conflict
from core.ids import AnswerId, JobId, KeyId, TenantId
from storage.answers import AnswerRepository
from storage.database import Database
from storage.job_run import JobRun
from storage.job_states import FINAL_STATUSES
from storage.jobs import JobRepository
from storage.listings import count_background_answers
from storage.models import Answer, Job
from tenancy.principal import Principal, Scope

MAX_IN_FLIGHT = 2
"""Questions of all jobs that are answered at once, by default; the other threads serve people."""

Store = Callable[[Session], None]
Item = TypeVar("Item")


class QuestionSet(Protocol[Item]):
    """The questions of one job."""

    def list_open(self, session: Session, *, limit: int) -> Sequence[Item]:
        """The first so many that are not settled, those that are being answered before the others."""
        ...

    def answer_id(self, item: Item) -> AnswerId | None:
        """None: it was not asked yet."""
        ...

    def ask(self, session: Session, item: Item) -> None:
        """Make the question's answer and store which it is."""
        ...

    def settle(self, item: Item, answer: Answer, job: Job) -> Store:
        """What stores that the answer has ended, and how."""
        ...


def advance(run: JobRun, database: Database, questions: QuestionSet[Item], *, max_in_flight: int) -> bool:
    """Settle what has been answered and ask the next few; whether all questions are settled.

    `max_in_flight` counts the questions of all such jobs of the house; each may always have one.
    """
    while True:
        run.checkpoint()
        with database.read() as session:
            items = questions.list_open(session, limit=max_in_flight)
            asked = {identifier: item for item in items if (identifier := questions.answer_id(item))}
            answers = AnswerRepository(session, run.job.tenant_id).with_jobs(list(asked))
            in_flight = count_background_answers(session)
        if not items:
            return True
        ended = {key: found for key, found in answers.items() if found[1].status in FINAL_STATUSES}
        for identifier, (answer, job) in ended.items():
            _confirmed(run, database, questions.settle(asked[identifier], answer, job))
        if ended:
            continue  # there may be others open now
        waiting = [item for item in items if questions.answer_id(item) is None]
        num_free = max(max_in_flight - in_flight, 0 if asked else 1)
        for number, item in enumerate(waiting[:num_free]):
            try:
                _confirmed(run, database, partial(questions.ask, item=item))
            except BudgetHeld:
                if not asked and number == 0:
                    raise
                break  # by our own questions, it may be: go on when they are answered
        return False


def asker_of(run: JobRun) -> Principal:
    """Whose questions the job asks."""
    assert run.job.key_id is not None  # such jobs are made through the API, which knows the caller's key
    return Principal(run.job.tenant_id, KeyId(run.job.key_id), frozenset({Scope.ASK}))


def cancel_answers(session: Session, tenant_id: TenantId, answer_ids: Sequence[AnswerId]) -> None:
    """Stop those that have not ended by themselves."""
    jobs = JobRepository(session, tenant_id)
    for _, job in AnswerRepository(session, tenant_id).with_jobs(answer_ids).values():
        with suppress(Conflict):
            jobs.request_cancel(JobId(job.id))


def _confirmed(run: JobRun, database: Database, store: Store) -> None:
    with database.write() as session:
        run.confirm(session)
        store(session)
