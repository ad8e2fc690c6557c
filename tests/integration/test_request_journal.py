"""What a dead worker's engine requests consumed is found and put on the ledger, on both databases."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from accounting.billing import BurnReason
from accounting.ledger import Ledger, generation_lines
from bootstrap.job_kinds import finish_job
from core.errors import EngineUnavailable
from core.ids import JobId
from core.request_journal import JournalEntry, current_journal
from core.settings import WorkerSettings
from core.usage import TokenUsage
from generation.summaries.registration import SUMMARIZE_KIND
from storage.database import Database
from storage.engine_requests import list_requests
from storage.job_run import JobRun, RunOutcome
from storage.jobs import JobRepository
from storage.models import Job, LedgerEntry, Price
from tests.pipeline_fixtures import House, build_house
from workers.execution import JobExecutor
from workers.request_journal import EVERY_SECONDS, JobJournal

USAGE = TokenUsage(90, 32, 3)


@pytest.fixture
def house(database: Database, tmp_path: Path) -> House:
    return build_house(database, tmp_path / "home")


def make_job(house: House, *, max_attempts: int = 3) -> JobId:
    with house.database.write() as session:
        job = JobRepository(session, house.principal.tenant_id).create(
            SUMMARIZE_KIND,
            queue="batch",
            payload={},
            collection_id=house.collection_id,
            key_id=house.principal.key_id,
            max_attempts=max_attempts,
        )
        return JobId(job.id)


def open_entry(house: House, journal: JobJournal) -> JournalEntry:
    info = house.generator.info()
    return journal.open(info.model, info.revision)


def noted(house: House, job_id: JobId) -> list[TokenUsage]:
    with house.database.read() as session:
        return [note.usage for note in list_requests(session, job_id)]


def entries(house: House, job_id: JobId) -> list[tuple[int, str, int, str | None]]:
    with house.database.read() as session:
        found = session.scalars(
            select(LedgerEntry).where(LedgerEntry.job_id == job_id).order_by(LedgerEntry.created_at)
        ).all()
    assert not any(entry.billed for entry in found)
    assert {entry.collection_id for entry in found} <= {house.collection_id}
    return sorted((entry.attempt, entry.price_stage, entry.num_tokens, entry.reason) for entry in found)


def lost(attempt: int) -> list[tuple[int, str, int, str | None]]:
    reason = BurnReason.LOST.value
    return [
        (attempt, "decode", 3, reason),
        (attempt, "prefill_cached", 32, reason),
        (attempt, "prefill_uncached", 58, reason),
    ]


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20 * EVERY_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.02)


def test_what_a_running_request_consumes_is_in_the_database_while_it_runs(house: House) -> None:
    job_id = make_job(house)
    with JobJournal(house.database, house.claim(job_id).job) as journal:
        entry = open_entry(house, journal)
        entry.used(TokenUsage(90, 32, 1))
        assert noted(house, job_id) == [TokenUsage(90, 32, 1)]
        entry.used(USAGE)
        wait_until(lambda: noted(house, job_id) == [USAGE])
        entry.close()
        time.sleep(2 * EVERY_SECONDS)  # the thread has nothing to do
        another = open_entry(house, journal)
        another.used(TokenUsage(7, 0, 1))
        another.used(TokenUsage(7, 0, 2))
        wait_until(lambda: TokenUsage(7, 0, 2) in noted(house, job_id))


def test_the_end_of_a_request_is_written_before_it_is_over_and_nothing_after(house: House) -> None:
    job_id = make_job(house)
    run = house.claim(job_id)
    with JobJournal(house.database, run.job) as journal:
        entry = open_entry(house, journal)
        entry.used(USAGE)
        entry.close()
        assert noted(house, job_id) == [USAGE]
        with house.database.write() as session:
            record(house, session, job_id)
        time.sleep(2 * EVERY_SECONDS)
        assert noted(house, job_id) == []
    assert noted(house, job_id) == []


def record(house: House, session: Session, job_id: JobId) -> None:
    info = house.generator.info()
    lines = generation_lines(
        USAGE, source="node", attempt=1, model=info.model, model_revision=info.revision, job_id=job_id
    )
    Ledger().record(session, house.principal.tenant_id, lines)


def test_the_ledger_forgets_the_journal_only_together_with_its_own_lines(house: House) -> None:
    job_id = make_job(house)
    open_and_close(house, house.claim(job_id))

    def record_and_break() -> None:
        with house.database.write() as session:
            record(house, session, job_id)
            raise ConnectionError("the database went away")

    with pytest.raises(ConnectionError):
        record_and_break()
    assert noted(house, job_id) == [USAGE]


def open_and_close(house: House, run: JobRun) -> None:
    with JobJournal(house.database, run.job) as journal:
        entry = open_entry(house, journal)
        entry.used(USAGE)
        entry.close()


def test_who_takes_a_dead_workers_job_up_puts_its_requests_on_the_ledger_once(house: House) -> None:
    job_id = make_job(house)
    for attempt in (1, 2):
        run = house.claim(job_id)
        assert run.job.attempt == attempt
        open_and_close(house, run)
        house.lose_worker(job_id)
    house.claim(job_id)
    assert noted(house, job_id) == []
    assert entries(house, job_id) == [*lost(1), *lost(2)]


def test_a_job_whose_last_worker_died_is_settled_when_it_is_parked(house: House) -> None:
    job_id = make_job(house, max_attempts=1)
    open_and_close(house, house.claim(job_id))
    house.lose_worker(job_id)
    assert entries(house, job_id) == lost(1)
    with house.database.read() as session:
        assert session.get_one(Job, job_id).error_code == "worker_lost"


def test_a_job_that_succeeds_has_its_requests_on_the_ledger_once(house: House) -> None:
    job_id = make_job(house)
    run = house.claim(job_id)
    open_and_close(house, run)
    with house.database.write() as session:
        run.succeed(session)
        record(house, session, job_id)
    with house.database.read() as session:
        found = session.scalars(select(LedgerEntry).where(LedgerEntry.job_id == job_id)).all()
    assert sorted((entry.num_tokens, entry.billed) for entry in found) == [(3, True), (32, True), (58, True)]
    assert noted(house, job_id) == []


def test_several_requests_of_an_attempt_are_one_line_a_stage(house: House) -> None:
    job_id = make_job(house, max_attempts=1)
    run = house.claim(job_id)
    open_and_close(house, run)
    open_and_close(house, run)
    house.lose_worker(job_id)
    assert [num_tokens for _, _, num_tokens, _ in entries(house, job_id)] == [6, 64, 116]


def test_a_price_that_is_missing_keeps_no_job_from_ending(house: House) -> None:
    job_id = make_job(house, max_attempts=1)
    open_and_close(house, house.claim(job_id))
    with house.database.write() as session:
        session.execute(delete(Price))
    house.lose_worker(job_id)
    assert entries(house, job_id) == []
    with house.database.read() as session:
        assert session.get_one(Job, job_id).status == "failed"


def test_a_pipeline_that_cannot_reach_the_ledger_is_settled_by_the_next_attempt(house: House) -> None:
    job_id = make_job(house)

    class Handler:
        def run(self, run: JobRun) -> RunOutcome:
            info = house.generator.info()
            entry = current_journal().open(info.model, info.revision)
            entry.used(USAGE)
            entry.close()
            raise EngineUnavailable("The engine died, and the database with it.")

    settings = WorkerSettings()
    JobExecutor(house.database, house.events, {SUMMARIZE_KIND: Handler()}, settings).execute(job_id)
    assert noted(house, job_id) == [USAGE]
    with house.database.write() as session:
        JobRepository(session, house.principal.tenant_id).request_cancel(job_id)
    assert entries(house, job_id) == lost(1)


def test_a_database_that_is_away_ends_no_request(house: House, tmp_path: Path) -> None:
    run = house.claim(make_job(house))
    away = Database(f"sqlite:///{tmp_path / 'nowhere' / 'away.db'}", on_job_ended=finish_job)
    with JobJournal(away, run.job) as journal:
        entry = open_entry(house, journal)
        entry.used(USAGE)
        entry.close()
