"""What an executor makes of what a pipeline does, on both databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import redis
from sqlalchemy import select
from sqlalchemy.orm import Session

from core.clock import utc_now
from core.errors import (
    Conflict,
    EngineIncapable,
    EngineUnavailable,
    LongleafError,
    UnreadableDocument,
)
from core.ids import JobId
from core.precedence import current_precedence
from core.priority import BACKGROUND, INTERACTIVE, current_priority
from core.settings import WorkerSettings
from storage.database import Database
from storage.job_run import JobRun, RunOutcome
from storage.jobs import JobRepository, Queue
from storage.models import Job, OutboxMessage
from storage.paging import PageRequest
from storage.waiting_people import WaitingPeople
from tests.pipeline_fixtures import House, build_house
from workers.execution import JobExecutor
from workers.precedence import JobPrecedence


@dataclass
class ScriptedHandler:
    """Does what it is told."""

    work: Callable[[JobRun], RunOutcome]

    def run(self, run: JobRun) -> RunOutcome:
        return self.work(run)


@dataclass
class Endings:
    """Hears of every job that ends, and may be told to raise."""

    seen: list[tuple[str, str]] = field(default_factory=list)
    fails: bool = False

    def __call__(self, session: Session, job: Job) -> None:
        if self.fails:
            raise RuntimeError
        self.seen.append((job.id, job.status))


@pytest.fixture
def endings() -> Endings:
    return Endings()


@pytest.fixture
def house(database: Database, endings: Endings, tmp_path: Path) -> Iterator[House]:
    listening = Database(database.url.render_as_string(hide_password=False), on_job_ended=endings)
    yield build_house(listening, tmp_path / "home")
    listening.dispose()


def execute(
    house: House,
    handler: ScriptedHandler,
    *,
    kind: str = "scripted",
    max_attempts: int = 3,
    queue: Queue = "batch",
    background: bool = False,
) -> Job:
    """A job's row after one call of the executor."""
    with house.database.write() as session:
        job = JobRepository(session, house.principal.tenant_id).create(
            kind,
            queue=queue,
            payload={},
            collection_id=None,
            key_id=None,
            max_attempts=max_attempts,
            background=background,
        )
    executor = JobExecutor(house.database, house.events, {"scripted": handler}, WorkerSettings())
    executor.execute(JobId(job.id))
    with house.database.read() as session:
        return session.get_one(Job, job.id)


def failing(error: Exception) -> ScriptedHandler:
    def work(run: JobRun) -> RunOutcome:
        raise error

    return ScriptedHandler(work)


def cancel(house: House, run: JobRun) -> None:
    with house.database.write() as session:
        JobRepository(session, house.principal.tenant_id).request_cancel(run.job.id)


@pytest.mark.parametrize(
    ("queue", "background", "priority"),
    [
        ("interactive", False, INTERACTIVE),
        ("interactive", True, BACKGROUND),
        ("batch", False, BACKGROUND),
    ],
)
def test_what_nobody_waits_for_works_in_the_background(
    house: House, queue: Queue, background: bool, priority: int
) -> None:
    seen: list[int] = []

    def work(run: JobRun) -> RunOutcome:
        seen.append(current_priority())
        with house.database.write() as session:
            run.succeed(session)
        return "done"

    execute(house, ScriptedHandler(work), queue=queue, background=background)
    assert seen == [priority]
    assert current_priority() == INTERACTIVE


@pytest.mark.parametrize(
    "error", [EngineUnavailable("It sleeps."), Conflict("The index is busy."), OSError("broken pipe")]
)
def test_what_may_pass_is_tried_again(house: House, endings: Endings, error: Exception) -> None:
    assert execute(house, failing(error)).status == "queued"
    assert endings.seen == []


@pytest.mark.parametrize("error", [EngineIncapable("No token ids."), UnreadableDocument("Damaged.")])
def test_what_will_not_pass_ends_the_job_at_once(
    house: House, endings: Endings, error: LongleafError
) -> None:
    job = execute(house, failing(error))
    assert (job.status, job.error_code) == ("failed", error.code)
    assert endings.seen == [(job.id, "failed")]
    assert (job.id, "finished", {"status": "failed"}) in house.events.published


def test_an_unforeseen_fault_ends_the_last_attempt_and_names_the_job(house: House) -> None:
    job = execute(house, failing(ZeroDivisionError()), max_attempts=1)
    assert (job.status, job.error_code) == ("failed", "internal_error")
    assert job.id in str(job.error_detail)
    assert "ZeroDivisionError" in str(job.error_detail)


@pytest.mark.parametrize("outcome", ["yielded", "postponed"])
def test_a_postponed_job_leaves_its_place_for_a_while_and_a_yielded_one_goes_on(
    house: House, outcome: RunOutcome
) -> None:
    job = execute(house, ScriptedHandler(lambda run: outcome))
    assert (job.status, job.attempt) == ("queued", 0)
    with house.database.read() as session:
        query = select(OutboxMessage.available_at).where(OutboxMessage.job_id == job.id)
        seconds = (max(session.scalars(query)) - utc_now()).total_seconds()
    assert seconds <= 30
    assert (seconds > 10) == (outcome == "postponed")


@pytest.mark.parametrize("ending", ["yields", "may pass", "fails"])
def test_a_job_cancelled_while_it_ran_is_closed_and_announced_however_its_run_ends(
    house: House, endings: Endings, ending: str
) -> None:
    def work(run: JobRun) -> RunOutcome:
        cancel(house, run)
        if ending == "may pass":
            raise EngineUnavailable("It sleeps.")
        if ending == "fails":
            raise UnreadableDocument("Damaged.")
        return "yielded"

    job = execute(house, ScriptedHandler(work))
    assert job.status == "cancelled"
    assert endings.seen == [(job.id, "cancelled")]
    assert (job.id, "finished", {"status": "cancelled"}) in house.events.published


def test_a_job_ends_only_together_with_what_is_due_then(house: House, endings: Endings) -> None:
    endings.fails = True
    with pytest.raises(RuntimeError):
        execute(house, failing(UnreadableDocument("Damaged.")))
    with house.database.read() as session:
        (job,) = JobRepository(session, house.principal.tenant_id).list_page(PageRequest()).items
    assert job.status == "running", "the relay will find its lease expired"


def test_a_kind_that_no_handler_knows_is_tried_again_and_then_fails_with_the_reason(house: House) -> None:
    job = execute(house, failing(ZeroDivisionError()), kind="novel", max_attempts=2)
    assert job.status == "queued"
    job = execute(house, failing(ZeroDivisionError()), kind="novel", max_attempts=1)
    assert (job.status, job.error_code) == ("failed", "model_unavailable")
    assert "novel" in str(job.error_detail)


def test_what_runs_in_a_job_has_its_precedence(house: House, redis_url: str) -> None:
    client = redis.Redis.from_url(redis_url)
    people = WaitingPeople(client)
    seen: list[bool] = []

    def work(run: JobRun) -> RunOutcome:
        seen.append(people.is_anyone())
        current_precedence().first_token()
        seen.append(people.is_anyone())
        with house.database.write() as session:
            run.succeed(session)
        return "done"

    with house.database.write() as session:
        job = JobRepository(session, house.principal.tenant_id).create(
            "scripted", queue="interactive", payload={}, collection_id=None, key_id=None, max_attempts=1
        )
    JobExecutor(
        house.database,
        house.events,
        {"scripted": ScriptedHandler(work)},
        WorkerSettings(),
        precedence=JobPrecedence(people, max_seconds=1.0),
    ).execute(JobId(job.id))
    client.close()
    assert seen == [True, False]
