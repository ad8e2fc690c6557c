"""Slots become jobs, once each, on both databases. Time is passed in."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, select
from sqlalchemy.orm import Session

from core.errors import EmptyInput, InvalidInput, LongleafError, NotFound
from core.ids import JobId, ScheduleId, TenantId
from schedules.actions import ScheduledAction
from schedules.firing import ScheduleRunner
from schedules.registration import change_schedule, register_schedule
from schedules.scheduler import POLL_SECONDS, Scheduler
from storage.database import Database
from storage.jobs import JobRepository
from storage.models import Job, OutboxMessage, Schedule, ScheduleRun, WebhookDelivery
from storage.schedules import ScheduleRepository
from storage.webhooks import WebhookRepository
from tenancy.keys import issue_key
from tenancy.principal import Principal, Scope
from tenancy.tenants import create_tenant
from tests.databases import make_sqlite

START = datetime(2026, 5, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


@dataclass
class World:
    """One tenant, one action that makes a job or fails as told, and a clock that is set."""

    database: Database
    now: datetime = START
    fault: Exception | None = None
    principal: Principal = field(init=False)

    def __post_init__(self) -> None:
        with self.database.write() as session:
            tenant = TenantId(create_tenant(session, name="北方 north", now=START).id)
            key = issue_key(session, tenant, name="k", scopes=["ask"], now=START).key
        self.principal = Principal(tenant, key.id, key.scopes)

    @property
    def runner(self) -> ScheduleRunner:
        return ScheduleRunner({"work": ScheduledAction(Scope.ASK, self._register)})

    def _register(self, session: Session, principal: Principal, order: Mapping[str, Any]) -> JobId:
        job = JobRepository(session, principal.tenant_id).create(
            "work", queue="batch", payload={}, collection_id=None, key_id=principal.key_id, max_attempts=1
        )
        if self.fault is not None:
            raise self.fault
        return JobId(job.id)

    def scheduler(self) -> Scheduler:
        return Scheduler(self.database, self.runner, clock=lambda: self.now)

    def tick(self, **later: float) -> float:
        self.now += timedelta(**later)
        return self.scheduler().tick()

    def make(self, **values: Any) -> ScheduleId:
        given = {
            "name": "每小时 hourly",
            "action": "work",
            "parameters": {},
            "cron": "0 * * * *",
            "time_zone": "UTC",
            "every_seconds": None,
            "start_at": None,
            "end_at": None,
            "catch_up": "latest",
            "overlap": "skip",
        } | values
        with self.database.write() as session:
            return ScheduleId(register_schedule(session, self.principal, now=self.now, **given).id)

    def change(self, schedule_id: ScheduleId, **changes: Any) -> Schedule:
        with self.database.write() as session:
            return change_schedule(session, self.principal, schedule_id, changes, now=self.now)

    def get(self, schedule_id: ScheduleId) -> Schedule:
        with self.database.read() as session:
            return ScheduleRepository(session, self.principal.tenant_id).get(schedule_id)

    def runs(self) -> list[tuple[str, str, str | None]]:
        """Slot, outcome and reason of every run, in order of slots."""
        with self.database.read() as session:
            rows = session.scalars(select(ScheduleRun).order_by(ScheduleRun.slot_at)).all()
        return [(f"{row.slot_at:%d %H:%M}" if row.slot_at else "now", row.outcome, row.code) for row in rows]

    def end_jobs(self, status: str = "succeeded") -> None:
        with self.database.write() as session:
            for job in session.scalars(select(Job).where(Job.status == "queued")):
                job.status = status

    def job_statuses(self) -> list[str]:
        with self.database.read() as session:
            return list(session.scalars(select(Job.status).order_by(Job.id)))


@pytest.fixture
def world(database: Database) -> World:
    return World(database)


@pytest.fixture
def local(tmp_path: Path) -> Iterator[World]:
    """On SQLite alone, for what both databases do alike."""
    database = Database(make_sqlite(tmp_path / "longleaf.db"))
    yield World(database)
    database.dispose()


def test_a_slot_becomes_a_job_that_names_its_schedule_and_is_announced(world: World) -> None:
    schedule_id = world.make()
    assert world.tick(minutes=59) == POLL_SECONDS
    assert world.runs() == []
    world.tick(minutes=1)
    world.tick(seconds=5)
    assert world.runs() == [("01 01:00", "started", None)]
    with world.database.read() as session:
        [job] = session.scalars(select(Job)).all()
        [run] = session.scalars(select(ScheduleRun)).all()
        assert session.scalars(select(OutboxMessage.job_id)).all() == [job.id]
    assert (job.schedule_id, job.schedule_run_id, run.job_id) == (schedule_id, run.id, job.id)
    assert world.get(schedule_id).next_at == START + 2 * HOUR


def test_the_scheduler_sleeps_until_the_next_slot(local: World) -> None:
    local.make()
    assert local.tick(minutes=59, seconds=59.5) == pytest.approx(0.5)


def test_schedulers_at_once_begin_each_slot_once(world: World) -> None:
    for _ in range(10):
        world.make(catch_up="all", overlap="queue")
    world.now += 3 * HOUR
    schedulers = [world.scheduler() for _ in range(3)]
    barrier = threading.Barrier(len(schedulers))

    def work(scheduler: Scheduler) -> None:
        barrier.wait()
        for _ in range(3):
            scheduler.tick()

    threads = [threading.Thread(target=work, args=(each,)) for each in schedulers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    outcomes = [outcome for _, outcome, _ in world.runs()]
    assert (outcomes.count("started"), outcomes.count("waiting"), len(outcomes)) == (10, 20, 30)
    assert len(world.job_statuses()) == 10


def test_a_clock_that_is_set_back_fires_no_slot_again(world: World) -> None:
    schedule_id = world.make()
    world.tick(hours=1)
    world.end_jobs()
    world.tick(minutes=-45)
    assert world.change(schedule_id, name="renamed").next_at == START + 2 * HOUR
    # Even where the schedule is counted anew from the clock as it is now.
    assert world.change(schedule_id, cron="0 */1 * * *").next_at == START + HOUR
    world.tick(minutes=45)
    assert world.runs() == [("01 01:00", "started", None)]
    assert world.get(schedule_id).next_at == START + 2 * HOUR


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("skip", [("01 03:00", "skipped", "slot_missed")]),
        ("latest", [("01 02:00", "skipped", "slot_missed"), ("01 03:00", "started", None)]),
        (
            "all",
            [("01 01:00", "started", None), ("01 02:00", "waiting", None), ("01 03:00", "waiting", None)],
        ),
    ],
)
def test_what_was_missed_is_made_up_for_by_the_policy(
    local: World, policy: str, expected: list[tuple[str, str, str | None]]
) -> None:
    local.make(catch_up=policy)
    local.tick(hours=3, minutes=30)
    assert local.runs() == expected


def test_slots_made_up_for_run_one_after_another(local: World) -> None:
    local.make(catch_up="all")
    local.tick(hours=3, minutes=30)
    for num_started in (1, 2, 3):
        assert [outcome for _, outcome, _ in local.runs()].count("started") == num_started
        local.tick(seconds=1)
        local.end_jobs()
        local.tick(seconds=1)


@pytest.mark.parametrize(
    ("policy", "second", "jobs"),
    [
        ("skip", ("skipped", "run_overlaps"), ["queued"]),
        ("queue", ("waiting", None), ["queued"]),
        ("cancel_previous", ("started", None), ["cancelled", "queued"]),
    ],
)
def test_a_run_that_finds_the_one_before_still_at_work(
    local: World, policy: str, second: tuple[str, str | None], jobs: list[str]
) -> None:
    local.make(overlap=policy)
    local.tick(hours=1)
    local.tick(hours=1)
    assert local.runs() == [("01 01:00", "started", None), ("01 02:00", *second)]
    assert local.job_statuses() == jobs


def test_a_run_that_waited_begins_once_the_one_before_has_ended_however_it_ended(world: World) -> None:
    world.make(overlap="queue")
    world.tick(hours=1)
    world.tick(hours=1)
    world.end_jobs("failed")
    world.tick(seconds=2)
    assert world.runs() == [("01 01:00", "started", None), ("01 02:00", "started", None)]


def test_a_schedule_whose_object_is_gone_says_so_and_pauses_itself(world: World) -> None:
    schedule_id = world.make()
    world.fault = NotFound("There is no collection col_1.", remedy="List yours.")
    world.tick(hours=1)
    assert world.runs() == [("01 01:00", "failed", "not_found")]
    schedule = world.get(schedule_id)
    assert schedule.next_at is None
    assert schedule.pause_detail == "There is no collection col_1. List yours."
    assert world.job_statuses() == []
    world.fault = None
    resumed = world.change(schedule_id, paused=False)
    assert (resumed.next_at, resumed.pause_code) == (START + 2 * HOUR, None)


def test_webhooks_hear_of_a_slot_that_began_nothing(local: World) -> None:
    with local.database.write() as session:
        WebhookRepository(session, local.principal.tenant_id).create(
            url="https://example.org/", event_types=["schedule.missed"], description="", secret="s"
        )
    schedule_id = local.make()
    local.fault = NotFound("There is no collection col_1.")
    local.tick(hours=1)
    with local.database.read() as session:
        [told] = session.scalars(select(WebhookDelivery)).all()
    assert (told.payload["schedule_id"], told.payload["slot_at"]) == (
        schedule_id,
        "2026-05-01T01:00:00+00:00",
    )
    assert (told.payload["reason"]["code"], told.payload["paused"]) == ("not_found", True)


@pytest.mark.parametrize(
    ("fault", "code"),
    [(EmptyInput("No ready document."), "empty_input"), (KeyError("x"), LongleafError.code)],
)
def test_a_fault_that_may_pass_fails_the_run_and_not_the_schedule(
    local: World, fault: Exception, code: str
) -> None:
    local.make()
    local.fault = fault
    local.tick(hours=1)
    local.fault = None
    local.tick(hours=1)
    assert local.runs() == [("01 01:00", "failed", code), ("01 02:00", "started", None)]


def test_slots_that_pass_while_it_is_paused_are_not_made_up_for(local: World) -> None:
    schedule_id = local.make(catch_up="all")
    assert local.change(schedule_id, paused=True).next_at is None
    local.tick(hours=5, minutes=30)
    assert local.change(schedule_id, paused=False).next_at == START + 6 * HOUR
    local.tick()
    assert local.runs() == []


def test_after_its_last_slot_a_schedule_is_due_no_more(local: World) -> None:
    schedule_id = local.make(end_at=START + 2 * HOUR)
    local.tick(hours=1)
    assert local.get(schedule_id).next_at is None
    assert local.tick(hours=5) == POLL_SECONDS
    with pytest.raises(InvalidInput, match="no slot to come"):
        local.change(schedule_id, cron="30 * * * *")


def test_running_now_leaves_the_slots_as_they_are(local: World) -> None:
    schedule_id = local.make(paused=True)
    with local.database.write() as session:
        for _ in range(2):
            local.runner.run_now(session, local.principal, schedule_id)
    assert local.runs() == [("now", "started", None)] * 2
    assert local.get(schedule_id).next_at is None


def test_what_waits_is_dropped_with_its_schedule(world: World) -> None:
    schedule_id = world.make(overlap="queue")
    world.tick(hours=1)
    world.tick(hours=1)
    with world.database.write() as session:
        ScheduleRepository(session, world.principal.tenant_id).delete(schedule_id, at=world.now)
    world.end_jobs()
    world.tick(hours=5)
    assert world.runs() == [("01 01:00", "started", None), ("01 02:00", "skipped", "schedule_deleted")]


def test_what_is_due_and_what_waits_is_found_by_indexes_among_thousands(local: World) -> None:
    asked: list[tuple[str, Any]] = []
    engine = local.database.engine
    event.listen(
        engine, "before_cursor_execute", lambda _c, _cur, sql, values, *_: asked.append((sql, values))
    )
    local.tick()
    plans = ""
    with engine.connect() as connection:
        for sql, values in list(asked):
            plans += str(connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values).all())
    assert "ix_schedules_due" in plans
    assert "ix_schedule_runs_waiting" in plans
    assert "SCAN schedules'" not in plans
