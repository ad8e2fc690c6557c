"""Deadlines, other tries, and what is forgotten after its time, on both databases."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from sqlalchemy import select

from core.clock import utc_now
from core.errors import EngineUnavailable
from core.ids import JobId
from storage.database import Database
from storage.idempotency import IdempotencyKeys
from storage.jobs import JobQueue, JobRepository
from storage.models import IdempotencyKey, Job, OutboxMessage, WebhookDelivery
from storage.retention import forget_deliveries, forget_idempotency_keys, forget_jobs
from storage.webhooks import WebhookRepository, notify
from tests.pipeline_fixtures import House, build_house


def ended_job(house: House, kind: str) -> JobId:
    with house.database.write() as session:
        job = JobRepository(session, house.principal.tenant_id).create(
            kind, queue="batch", payload={}, collection_id=None, key_id=None, max_attempts=1
        )
        JobRepository(session, house.principal.tenant_id).request_cancel(JobId(job.id))
        return JobId(job.id)


def test_only_ended_jobs_that_nothing_names_are_forgotten(database: Database, tmp_path: Path) -> None:
    house = build_house(database, tmp_path / "home")
    alone, announced = ended_job(house, "compact"), ended_job(house, "compact")
    asked, _ = house.ask("合同多久？ How long?")
    uploaded = house.upload({"a.md": b"# A"})
    with database.write() as session:
        for job_id in (asked, uploaded):
            JobRepository(session, house.principal.tenant_id).request_cancel(job_id)
        session.execute(OutboxMessage.__table__.delete().where(OutboxMessage.job_id == alone))
    open_job, _ = house.ask("何时？ When?")
    with database.write() as session:
        assert forget_jobs(session, before=utc_now() - timedelta(hours=1)) == 0, "they are young"
        assert forget_jobs(session, before=utc_now() + timedelta(hours=1)) == 1
    with database.write() as session:
        assert set(session.scalars(select(Job.id))) == {announced, asked, uploaded, open_job}


def test_a_key_is_forgotten_after_its_time(database: Database, tmp_path: Path) -> None:
    house = build_house(database, tmp_path / "home")
    with database.write() as session:
        IdempotencyKeys(session, house.principal.tenant_id).remember("k", "hash", "ans_1")
    with database.write() as session:
        assert forget_idempotency_keys(session, before=utc_now() - timedelta(hours=1)) == 0
        assert forget_idempotency_keys(session, before=utc_now() + timedelta(hours=1)) == 1
        assert session.scalars(select(IdempotencyKey)).all() == []


def test_a_deadline_ends_a_job_wherever_it_is(database: Database, tmp_path: Path) -> None:
    house = build_house(database, tmp_path / "home")
    past, tenant_id = utc_now() - timedelta(seconds=1), house.principal.tenant_id
    waiting, claimed, running, stuck = (house.ask(f"{i} ?")[0] for i in range(4))
    run = house.claim(running)
    house.claim(stuck)
    with database.write() as session:
        for job_id in (waiting, claimed, running, stuck):
            session.get_one(Job, job_id).deadline_at = past
    with database.write() as session:
        queue = JobQueue(session)
        assert queue.claim_job(claimed, "w", lease=timedelta(seconds=9)) is None
        assert queue.finish(running, run.owner) == "failed", "too late is not in time"
        assert [job.id for job in queue.end_overdue(running_before=past)] == [waiting, stuck]
    with database.read() as session:
        jobs = [session.get_one(Job, job_id) for job_id in (waiting, claimed, running, stuck)]
    assert {(job.status, job.error_code) for job in jobs} == {("failed", "deadline_exceeded")}
    with database.write() as session:
        again = JobRepository(session, tenant_id).retry(waiting, more_attempts=3)
        assert again.deadline_at is not None
        assert (again.status, again.error_code, again.attempt) == ("queued", None, 0)


def test_another_try_keeps_counting_so_that_each_attempt_has_its_own_lines(
    database: Database, tmp_path: Path
) -> None:
    house = build_house(database, tmp_path / "home")
    job_id, _ = house.ask("谁？ Who?")
    run = house.claim(job_id)
    with database.write() as session:
        JobQueue(session).finish(job_id, run.owner, error=EngineUnavailable("It sleeps."))
    with database.write() as session:
        JobRepository(session, house.principal.tenant_id).retry(job_id, more_attempts=3)
    again = house.claim(job_id)
    assert (again.job.attempt, again.job.max_attempts) == (2, 4)


def test_the_log_of_deliveries_is_forgotten_with_their_jobs(database: Database, tmp_path: Path) -> None:
    house = build_house(database, tmp_path / "home")
    tenant_id = house.principal.tenant_id
    with database.write() as session:
        WebhookRepository(session, tenant_id).create(
            url="https://example.com", event_types=["webhook.test"], description="", secret="whsec_AA=="
        )
        notify(session, tenant_id, "webhook.test", {})
    with database.read() as session:
        job_id = JobId(session.scalars(select(WebhookDelivery.job_id)).one())
    run = house.claim(job_id)
    with database.write() as session:
        run.succeed(session)
        session.execute(OutboxMessage.__table__.delete().where(OutboxMessage.job_id == job_id))
    with database.write() as session:
        assert forget_deliveries(session, before=utc_now() - timedelta(hours=1)) == 0
        assert forget_deliveries(session, before=utc_now() + timedelta(hours=1)) == 1
        assert forget_jobs(session, before=utc_now() + timedelta(hours=1)) == 1
