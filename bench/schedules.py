"""A year of schedules in ten time zones, with clock changes, downtime and two schedulers at once.

Time is simulated: the clock jumps from one due slot to the next, and both schedulers, whose clocks differ
by up to two seconds, look at the same database at that moment, each in a thread of its own. Now and then
the clock is set back for a look, and a dozen times a year no scheduler runs, for minutes or days.

What should have run is worked out apart from the code under test: by walking over every minute of the year
and reading the zone's clock (`bench/schedule_slots.py`). `missed` counts slots that should have run and did
not, and slots left out without a row that says so; `doubled` counts jobs beyond one for each of those.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from bench.own_postgresql import running_postgresql
from bench.report import BenchOptions, BenchResult, BenchTable
from bench.schedule_slots import Outage, slots_of_cron, slots_of_interval, split_by_policy
from core.ids import JobId, TenantId, new_id
from core.logging import configure_logging
from schedules.actions import ScheduledAction
from schedules.catch_up import CatchUp
from schedules.firing import ScheduleRunner
from schedules.registration import register_schedule
from schedules.scheduler import Scheduler
from storage.database import Database
from storage.migrate import upgrade
from storage.models import Job, ScheduleRun
from storage.schedules import ScheduleQueue
from tenancy.keys import issue_key
from tenancy.principal import Principal, Scope
from tenancy.tenants import create_tenant

ZONES = (
    "UTC",
    "Asia/Shanghai",
    "Europe/Berlin",
    "America/New_York",
    "America/Santiago",  # leaves out midnight
    "Australia/Lord_Howe",  # jumps by half an hour
    "Antarctica/Troll",  # jumps by two hours
    "Africa/Casablanca",  # leaves and enters summer time around Ramadan
    "Asia/Gaza",  # changes on days that no rule gives
    "Pacific/Chatham",  # 45 minutes off
)
NIGHTLY = "30 2 * * 6,0,1"  # the days at whose beginning zones change their clocks, and the one after
OTHERS = ("*/30 1-2 * * 0", "0,45 0,2,3 29 * *", None)
"""Repetitions in the night of most changes, times of one day a month, and an interval."""
EVERY_SECONDS = 3 * 86_400 + 1_860
POLICIES: tuple[CatchUp, ...] = ("skip", "latest", "all")

_YEAR = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
_WEEKS = datetime(2026, 3, 20, tzinfo=UTC), datetime(2026, 4, 8, tzinfo=UTC)
_SET_BACK_EVERY = 40
_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class _Planned:
    """A schedule of the simulation: `cron` in `zone`, or at an interval."""

    zone: str
    cron: str | None
    policy: CatchUp

    @property
    def every_seconds(self) -> int | None:
        return EVERY_SECONDS if self.cron is None else None


@dataclass(frozen=True, slots=True)
class _Tally:
    """What became of the slots of all schedules on one database."""

    slots: int
    expected: int
    missed: int
    doubled: int
    num_wakes: int
    seconds: float


def run(options: BenchOptions) -> BenchResult:
    configure_logging("error", "console")  # every slot that a policy leaves out is a warning
    plans = _plans()
    tallies: dict[str, _Tally] = {}
    with _databases() as databases:
        for name, database in databases.items():
            # The databases differ in how they lock and not in what is due, so one of them has the year.
            start, end = _YEAR if name == "sqlite" and not options.quick else _WEEKS
            outages = _outages(start, end, random.Random(7))
            slots = {plan: _expected(plan, start, end) for plan in plans}
            tallies[name] = _simulate(database, slots, outages, start, end)
    return BenchResult(
        name="schedules",
        config={"zones": list(ZONES), "crons": [NIGHTLY, *filter(None, OTHERS)], "num_schedules": len(plans)},
        figures={
            "slots": sum(tally.slots for tally in tallies.values()),
            "missed": sum(tally.missed for tally in tallies.values()),
            "doubled": sum(tally.doubled for tally in tallies.values()),
        },
        details={name: {each: getattr(tally, each) for each in _COLUMNS} for name, tally in tallies.items()},
        tables=[
            BenchTable(
                "three weeks" if options.quick else "a year on SQLite, three weeks on PostgreSQL",
                ("database", *(each.replace("_", " ") for each in _COLUMNS)),
                [
                    (name, *(f"{getattr(tally, each):,.0f}" for each in _COLUMNS))
                    for name, tally in tallies.items()
                ],
            )
        ],
    )


_COLUMNS = ("slots", "expected", "missed", "doubled", "num_wakes", "seconds")


@contextmanager
def _databases() -> Iterator[Mapping[str, Database]]:
    with tempfile.TemporaryDirectory(prefix="schedules") as folder, running_postgresql() as url:
        databases = {"sqlite": Database(f"sqlite:///{Path(folder) / 'a.db'}"), "postgresql": Database(url)}
        try:
            yield databases
        finally:
            for database in databases.values():
                database.dispose()


def _plans() -> list[_Planned]:
    """In every zone the time of day under each policy, and the others under one policy each, in turn."""
    plans = []
    for number, zone in enumerate(ZONES):
        plans += [_Planned(zone, NIGHTLY, policy) for policy in POLICIES]
        for place, cron in enumerate(OTHERS):
            plans.append(_Planned(zone, cron, POLICIES[(number + place) % len(POLICIES)]))
    return plans


def _expected(plan: _Planned, start: datetime, end: datetime) -> Sequence[datetime]:
    if plan.cron is None:
        return slots_of_interval(EVERY_SECONDS, start, end)
    return slots_of_cron(plan.cron, plan.zone, start, end)


def _outages(start: datetime, end: datetime, chance: random.Random) -> list[Outage]:
    """Times at which no scheduler runs, in order: minutes to days, apart from each other."""
    num = max(3, round((end - start) / timedelta(days=26)))
    step = (end - start) / num
    found = []
    for number in range(num):
        begins = (start + number * step + chance.random() * step / 3).replace(microsecond=0)
        lasts = timedelta(minutes=chance.choice([7, 90, 400, 1500, 4000]))
        found.append(Outage(begins, begins + min(lasts, step / 2)))
    return found


def _simulate(
    database: Database,
    slots: Mapping[_Planned, Sequence[datetime]],
    outages: Sequence[Outage],
    start: datetime,
    end: datetime,
) -> _Tally:
    began = time.monotonic()
    upgrade(database)
    principal = _principal(database, start)
    plans = {_make(database, principal, plan, start): plan for plan in slots}
    num_wakes = _run_schedulers(database, outages, start, end)
    with database.read() as session:
        runs = list(session.scalars(select(ScheduleRun)))
        jobs = Counter(session.scalars(select(Job.schedule_run_id)))
    missed = doubled = num_expected = 0
    for schedule_id, plan in plans.items():
        own = [run for run in runs if run.schedule_id == schedule_id]
        wanted, left_out = split_by_policy(slots[plan], outages, plan.policy)
        ran = Counter(run.slot_at for run in own for _ in range(jobs[run.id]))
        excused = [(run.first_slot_at or run.slot_at, run.slot_at) for run in own if run.outcome == "skipped"]
        num_expected += len(wanted)
        missed += sum(1 for slot in wanted if not ran[slot])
        missed += sum(1 for slot in left_out if not _is_in(slot, excused))
        doubled += sum(ran.values()) - sum(1 for slot in wanted if ran[slot])
    num_slots = sum(map(len, slots.values()))
    return _Tally(num_slots, num_expected, missed, doubled, num_wakes, time.monotonic() - began)


def _is_in(slot: datetime, spans: Sequence[tuple[datetime | None, datetime | None]]) -> bool:
    return any(first <= slot <= last for first, last in spans if first is not None and last is not None)


def _principal(database: Database, now: datetime) -> Principal:
    with database.write() as session:
        tenant = TenantId(create_tenant(session, name="bench", now=now).id)
        key = issue_key(session, tenant, name="bench", scopes=["ask"], now=now).key
    return Principal(tenant, key.id, key.scopes)


def _make(database: Database, principal: Principal, plan: _Planned, start: datetime) -> str:
    with database.write() as session:
        row = register_schedule(
            session,
            principal,
            now=start - _MINUTE,
            name=f"{plan.cron} {plan.zone} {plan.policy}",
            action="note",
            parameters={},
            cron=plan.cron,
            time_zone=plan.zone,
            every_seconds=plan.every_seconds,
            catch_up=plan.policy,
            overlap="queue",
            start_at=start,
            end_at=None,
        )
        return row.id


def _note(session: Session, principal: Principal, order: Mapping[str, Any]) -> JobId:
    """A job that has done its work at once, so that no run waits for another."""
    job = Job(
        id=new_id("job"),
        tenant_id=principal.tenant_id,
        key_id=principal.key_id,
        kind="note",
        queue="batch",
        status="succeeded",
        payload={},
        progress={},
        attempt=1,
        max_attempts=1,
    )
    session.add(job)
    session.flush()
    return JobId(job.id)


@dataclass(slots=True)
class _SimulatedClock:
    now: datetime


def _run_schedulers(database: Database, outages: Sequence[Outage], start: datetime, end: datetime) -> int:
    """Let both schedulers work until `end`; how often they woke."""
    chance, num_wakes = random.Random(11), 0
    runner = ScheduleRunner({"note": ScheduledAction(Scope.ASK, _note)})
    clocks = [_SimulatedClock(start), _SimulatedClock(start)]
    schedulers = [
        Scheduler(database, runner, clock=lambda clock=clock: clock.now)  # type: ignore[misc]
        for clock in clocks
    ]

    def wake(pool: ThreadPoolExecutor, now: datetime) -> None:
        for clock in clocks:
            clock.now = now + timedelta(seconds=chance.uniform(0, 2))
        list(pool.map(Scheduler.tick, schedulers))

    with ThreadPoolExecutor(len(schedulers)) as pool:
        while True:
            with database.read() as session:
                due = ScheduleQueue(session).next_due_at()
            now = due or end
            for outage in outages:
                if outage.start <= now < outage.end:
                    now = outage.end
            if now >= end:
                return num_wakes
            wake(pool, now)
            num_wakes += 1
            if num_wakes % _SET_BACK_EVERY == 0:
                wake(pool, now - timedelta(minutes=chance.randint(1, 200)))
