"""The life of jobs on both databases: claims, leases, cancellation, the outbox."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from core.clock import utc_now
from core.errors import Conflict, JobCancelled, LeaseLost, NotFound, UnreadableDocument
from core.ids import JobId, TenantId, new_id
from storage.database import Database
from storage.job_run import JobRun
from storage.job_states import COMES_FROM, FINAL_STATUSES, JobStatus, move_job
from storage.jobs import ClaimedJob, JobQueue, JobRepository
from storage.models import Job, Tenant
from storage.outbox import Outbox
from storage.paging import PageRequest

LEASE = timedelta(seconds=10)


@pytest.fixture
def tenant(database: Database) -> TenantId:
    return make_tenant(database)


def make_tenant(database: Database) -> TenantId:
    tenant_id = TenantId(new_id("ten"))
    with database.write() as session:
        session.add(Tenant(id=tenant_id, name=tenant_id))
    return tenant_id


def make_job(database: Database, tenant: TenantId, *, max_attempts: int = 3) -> JobId:
    with database.write() as session:
        job = JobRepository(session, tenant).create(
            "answer",
            queue="interactive",
            payload={},
            collection_id=None,
            key_id=None,
            max_attempts=max_attempts,
        )
        return JobId(job.id)


def claim(database: Database, job_id: JobId, owner: str = "w1") -> ClaimedJob | None:
    with database.write() as session:
        return JobQueue(session).claim_job(job_id, owner, lease=LEASE)


def status(database: Database, job_id: JobId) -> str:
    with database.read() as session:
        return session.get_one(Job, job_id).status


def expire(database: Database, job_id: JobId) -> None:
    with database.write() as session:
        session.execute(
            update(Job).where(Job.id == job_id).values(lease_expires_at=utc_now() - timedelta(seconds=1))
        )


def test_a_job_and_its_announcement_appear_together(database: Database, tenant: TenantId) -> None:
    job_id = make_job(database, tenant)
    with database.write() as session:
        assert [message.job_id for message in Outbox(session).claim_unsent(utc_now())] == [job_id]


def test_a_rolled_back_transaction_announces_nothing(database: Database, tenant: TenantId) -> None:
    def create_and_break() -> None:
        with database.write() as session:
            JobRepository(session, tenant).create(
                "answer", queue="interactive", payload={}, collection_id=None, key_id=None, max_attempts=1
            )
            raise RuntimeError

    with pytest.raises(RuntimeError):
        create_and_break()
    with database.write() as session:
        assert Outbox(session).claim_unsent(utc_now()) == []


def test_the_relay_is_woken_after_the_commit_only(database: Database, tenant: TenantId) -> None:
    seen: list[bool] = []

    def on_commit() -> None:
        with database.read() as session:
            seen.append(bool(JobRepository(session, tenant).list_page(PageRequest()).items))

    waking = Database(database.url.render_as_string(hide_password=False), on_commit=on_commit)
    make_job(waking, tenant)
    waking.dispose()
    assert seen == [True]


def test_one_of_many_workers_claims_a_job(database: Database, tenant: TenantId) -> None:
    job_id = make_job(database, tenant)
    won: list[str] = []

    def compete(owner: str) -> None:
        if claim(database, job_id, owner) is not None:
            won.append(owner)

    threads = [threading.Thread(target=compete, args=(f"w{i}",)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1


def test_a_dead_workers_job_is_queued_again_and_announced(database: Database, tenant: TenantId) -> None:
    job_id = make_job(database, tenant)
    assert claim(database, job_id) is not None
    expire(database, job_id)
    with database.write() as session:
        assert JobQueue(session).take_up_expired() == []
    assert status(database, job_id) == "queued"
    again = claim(database, job_id, "w2")
    assert again is not None
    assert again.attempt == 2


def test_a_job_whose_workers_keep_dying_fails_with_the_reason(database: Database, tenant: TenantId) -> None:
    job_id = make_job(database, tenant, max_attempts=1)
    claim(database, job_id)
    expire(database, job_id)
    with database.write() as session:
        assert [job.id for job in JobQueue(session).take_up_expired()] == [job_id]
    with database.read() as session:
        job = session.get_one(Job, job_id)
        assert (job.status, job.error_code) == ("failed", "worker_lost")


def test_a_worker_that_was_only_slow_cannot_finish_after_another_took_over(
    database: Database, tenant: TenantId
) -> None:
    job_id = make_job(database, tenant)
    first = claim(database, job_id, "slow")
    expire(database, job_id)
    with database.write() as session:
        JobQueue(session).take_up_expired()
    claim(database, job_id, "other")
    assert first is not None
    run = JobRun(job=first, owner="slow", checkpoint=lambda: None)
    with pytest.raises(LeaseLost), database.write() as session:
        run.succeed(session)
    assert status(database, job_id) == "running"


def test_cancel_ends_a_queued_job_at_once_and_it_is_never_claimed(
    database: Database, tenant: TenantId
) -> None:
    job_id = make_job(database, tenant)
    with database.write() as session:
        assert JobRepository(session, tenant).request_cancel(job_id).status == "cancelled"
    assert claim(database, job_id) is None


def test_cancel_beats_completion(database: Database, tenant: TenantId) -> None:
    job_id = make_job(database, tenant)
    job = claim(database, job_id, "w1")
    assert job is not None
    with database.write() as session:
        JobRepository(session, tenant).request_cancel(job_id)
    run = JobRun(job=job, owner="w1", checkpoint=lambda: None)
    with pytest.raises(JobCancelled), database.write() as session:
        run.succeed(session)
    with database.write() as session:
        assert JobQueue(session).finish(job_id, "w1") == "cancelled"


def test_a_finished_job_cannot_be_cancelled(database: Database, tenant: TenantId) -> None:
    job_id = make_job(database, tenant)
    claim(database, job_id)
    with database.write() as session:
        JobQueue(session).finish(job_id, "w1")
    with pytest.raises(Conflict), database.write() as session:
        JobRepository(session, tenant).request_cancel(job_id)


def test_a_failed_job_keeps_code_and_detail(database: Database, tenant: TenantId) -> None:
    job_id = make_job(database, tenant)
    claim(database, job_id)
    error = UnreadableDocument("report.pdf is damaged.", remedy="Upload it again.")
    with database.write() as session:
        assert JobQueue(session).finish(job_id, "w1", error=error) == "failed"
    with database.read() as session:
        job = session.get_one(Job, job_id)
        assert (job.error_code, job.error_detail) == (
            "unreadable_document",
            "report.pdf is damaged. Upload it again.",
        )


def test_yielding_does_not_use_up_an_attempt(database: Database, tenant: TenantId) -> None:
    job_id = make_job(database, tenant)
    claim(database, job_id, "w1")
    with database.write() as session:
        JobQueue(session).yield_job(job_id, "w1")
    again = claim(database, job_id, "w2")
    assert again is not None
    assert again.attempt == 1


def test_a_retry_is_announced_only_when_its_pause_is_over(database: Database, tenant: TenantId) -> None:
    job_id = make_job(database, tenant)
    with database.write() as session:
        for message in Outbox(session).claim_unsent(utc_now()):
            message.sent_at = utc_now()
    claim(database, job_id, "w1")
    due = utc_now() + timedelta(minutes=5)
    with database.write() as session:
        JobQueue(session).retry(job_id, "w1", available_at=due)
    with database.write() as session:
        assert Outbox(session).claim_unsent(utc_now()) == []
        assert [m.job_id for m in Outbox(session).claim_unsent(due)] == [job_id]


def test_only_jobs_whose_every_announcement_was_sent_count_as_unheard(
    database: Database, tenant: TenantId
) -> None:
    job_id = make_job(database, tenant)
    later = utc_now() + timedelta(minutes=1)
    with database.write() as session:
        assert Outbox(session).list_unheard("interactive", later) == []
        for message in Outbox(session).claim_unsent(utc_now()):
            message.sent_at = utc_now()
    with database.read() as session:
        assert [job.id for job in Outbox(session).list_unheard("interactive", later)] == [job_id]
        assert Outbox(session).list_unheard("ingest", later) == []


def test_another_tenants_job_does_not_exist(database: Database, tenant: TenantId) -> None:
    job_id = make_job(database, tenant)
    other = make_tenant(database)
    with database.read() as session, pytest.raises(NotFound):
        JobRepository(session, other).get(job_id)
    with database.write() as session, pytest.raises(NotFound):
        JobRepository(session, other).request_cancel(job_id)


@pytest.mark.parametrize("ended", sorted(FINAL_STATUSES))
@pytest.mark.parametrize("to", COMES_FROM)
def test_what_has_ended_stays_as_it_is_unless_it_is_tried_again(
    database: Database, tenant: TenantId, ended: JobStatus, to: JobStatus
) -> None:
    job_id = make_job(database, tenant)
    with database.write() as session:
        session.get_one(Job, job_id).status = ended
    with database.write() as session:
        moved = move_job(session, job_id, to)
    assert (moved is not None) == (to == "queued" and ended != "succeeded")
    assert status(database, job_id) == (to if moved else ended)


def test_every_way_to_end_is_heard_of_once_in_its_own_transaction(
    database: Database, tenant: TenantId
) -> None:
    heard: list[tuple[str, str, str | None]] = []

    def hear(session: Session, job: Job) -> None:
        heard.append((job.id, job.status, job.error_code))

    listening = Database(database.url.render_as_string(hide_password=False), on_job_ended=hear)
    done, broken, queued, stopped, lost = (make_job(database, tenant, max_attempts=1) for _ in range(5))
    for job_id in (done, broken, stopped, lost):
        claim(database, job_id)
    for job_id in (stopped, lost):
        expire(database, job_id)
    with listening.write() as session:
        jobs = JobRepository(session, tenant)
        JobQueue(session).finish(done, "w1")
        JobQueue(session).finish(broken, "w1", error=UnreadableDocument("Damaged."))
        jobs.request_cancel(queued)
        jobs.request_cancel(stopped)
        JobQueue(session).take_up_expired()
        JobQueue(session).take_up_expired()
    assert sorted(heard) == sorted(
        [
            (done, "succeeded", None),
            (broken, "failed", "unreadable_document"),
            (queued, "cancelled", None),
            (stopped, "cancelled", None),
            (lost, "failed", "worker_lost"),
        ]
    )
    listening.dispose()


def test_what_is_read_together_is_of_one_moment(database: Database, tenant: TenantId) -> None:
    first, second = make_job(database, tenant), make_job(database, tenant)
    with database.read() as session:
        assert session.get_one(Job, first).status == "queued"
        for job_id in (first, second):
            claim(database, job_id)
        assert session.get_one(Job, second).status == "queued", "no other transaction shows in the middle"
    assert status(database, second) == "running"


def test_a_dead_workers_job_goes_before_those_that_came_after_it(
    database: Database, tenant: TenantId
) -> None:
    retaken = make_job(database, tenant)
    claim(database, retaken)
    waiting = [make_job(database, tenant) for _ in range(3)]
    expire(database, retaken)
    with database.write() as session:
        JobQueue(session).take_up_expired()
    with database.read() as session:
        counts = Outbox(session).count_waiting(utc_now(), "interactive")
        first = min(counts, key=lambda each: each.priority)
        assert (counts[first], max(counts.values())) == (1, len(waiting) + 1)
