"""Schedules, and what became of their slots."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Select, exists, func, literal_column, select, update
from sqlalchemy.orm import Session

from core.clock import utc_now
from core.errors import LongleafError, NotFound
from core.ids import JobId, ScheduleId, TenantId, new_id
from storage.insertion import insert_if_absent
from storage.models import Job, Schedule, ScheduleRun
from storage.paging import Page, PageRequest, paginate

RunOutcome = Literal["started", "waiting", "skipped", "failed"]

_OPEN = ("queued", "running")
# Spelled out, since SQLite uses a partial index only where the statement itself has its condition.
_IS_WAITING = ScheduleRun.outcome == literal_column("'waiting'")


class ScheduleRepository:
    """Sees only its tenant's schedules; those deleted do not exist, but their runs' jobs do."""

    def __init__(self, session: Session, tenant_id: TenantId) -> None:
        self._session = session
        self._tenant_id = tenant_id

    def create(self, **values: Any) -> Schedule:
        schedule = Schedule(id=new_id("sch"), tenant_id=self._tenant_id, **values)
        self._session.add(schedule)
        self._session.flush()
        return schedule

    def get(self, schedule_id: ScheduleId) -> Schedule:
        """Raises `NotFound` for an unknown, deleted or foreign id."""
        return self._require(self._live().where(Schedule.id == schedule_id), schedule_id)

    def hold(self, schedule_id: ScheduleId) -> Schedule:
        """As `get`, and no scheduler begins a run of it before this transaction ends."""
        query = self._live().where(Schedule.id == schedule_id).with_for_update()
        return self._require(query.execution_options(populate_existing=True), schedule_id)

    def list_page(self, page: PageRequest, *, action: str | None = None) -> Page[Schedule]:
        query = self._live()
        if action is not None:
            query = query.where(Schedule.action == action)
        return paginate(self._session, query, Schedule, page)

    def list_runs(self, schedule_id: ScheduleId, page: PageRequest) -> Page[ScheduleRun]:
        self.get(schedule_id)
        query = select(ScheduleRun).where(
            ScheduleRun.schedule_id == schedule_id, ScheduleRun.tenant_id == self._tenant_id
        )
        return paginate(self._session, query, ScheduleRun, page)

    def get_run(self, run_id: str) -> ScheduleRun:
        """Raises `NotFound` for an unknown or foreign id."""
        found = self._session.scalar(
            select(ScheduleRun).where(ScheduleRun.id == run_id, ScheduleRun.tenant_id == self._tenant_id)
        )
        if found is None:
            raise NotFound(f"There is no run {run_id}.", remedy="List a schedule's runs.", run_id=run_id)
        return found

    def delete(self, schedule_id: ScheduleId, *, at: datetime) -> None:
        """It is due no more and what waits is dropped; the jobs that it has begun go on."""
        schedule = self.hold(schedule_id)
        schedule.deleted_at, schedule.next_at = at, None
        self._session.execute(
            update(ScheduleRun)
            .where(
                ScheduleRun.schedule_id == schedule_id,
                ScheduleRun.tenant_id == self._tenant_id,
                _IS_WAITING,
            )
            .values(outcome="skipped", code="schedule_deleted", detail="The schedule was deleted.")
        )

    def _live(self) -> Select[Schedule]:
        return select(Schedule).where(Schedule.tenant_id == self._tenant_id, Schedule.deleted_at.is_(None))

    def _require(self, query: Select[Schedule], schedule_id: ScheduleId) -> Schedule:
        found = self._session.scalar(query)
        if found is None:
            raise NotFound(
                f"There is no schedule {schedule_id}.",
                remedy="List yours with GET /v1/schedules.",
                schedule_id=schedule_id,
            )
        return found


class ScheduleQueue:
    """All tenants' schedules, as the schedulers see them: what is due, each held by one of them."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def next_due_at(self) -> datetime | None:
        """The earliest slot to come."""
        return self._session.scalar(select(func.min(Schedule.next_at)))

    def list_due(self, now: datetime, *, limit: int = 100) -> Sequence[ScheduleId]:
        """Those with a slot up to now, the longest due first."""
        found = self._session.scalars(
            select(Schedule.id).where(Schedule.next_at <= now).order_by(Schedule.next_at).limit(limit)
        )
        return [ScheduleId(each) for each in found]

    def list_unblocked(self, *, limit: int = 100) -> Sequence[ScheduleId]:
        """Those of whose runs one waits while no job of theirs is open."""
        is_busy = exists().where(Job.schedule_id == ScheduleRun.schedule_id, Job.status.in_(_OPEN))
        found = self._session.scalars(
            select(ScheduleRun.schedule_id)
            .join(Schedule, Schedule.id == ScheduleRun.schedule_id)
            .where(_IS_WAITING, Schedule.paused_at.is_(None), ~is_busy)
            .distinct()
            .limit(limit)
        )
        return [ScheduleId(each) for each in found]

    def claim_due(self, schedule_id: ScheduleId, now: datetime) -> Schedule | None:
        """The schedule, held until the transaction ends; None where it is not due (any more), or held."""
        return self._claim(select(Schedule).where(Schedule.id == schedule_id, Schedule.next_at <= now))

    def claim_unblocked(self, schedule_id: ScheduleId) -> Schedule | None:
        """The same of one that may have a waiting run begun."""
        query = select(Schedule).where(Schedule.id == schedule_id, Schedule.paused_at.is_(None))
        schedule = self._claim(query)
        return None if schedule is None or ScheduleRuns(self._session, schedule).open_jobs() else schedule

    def _claim(self, query: Select[Schedule]) -> Schedule | None:
        held = query.with_for_update(skip_locked=True).execution_options(populate_existing=True)
        found: Schedule | None = self._session.scalar(held)
        return found


class ScheduleRuns:
    """The runs of one schedule that the transaction holds."""

    def __init__(self, session: Session, schedule: Schedule) -> None:
        self._session = session
        self._schedule = schedule

    def add(self, slot_at: datetime | None, *, first_slot_at: datetime | None = None) -> ScheduleRun | None:
        """A waiting run; None where the slot has had its run, whatever the clock says now."""
        run_id = new_id("srn")
        row = {
            "id": run_id,
            "tenant_id": self._schedule.tenant_id,
            "schedule_id": self._schedule.id,
            "slot_at": slot_at,
            "first_slot_at": first_slot_at,
            "outcome": "waiting",
            "created_at": utc_now(),
        }
        added = insert_if_absent(self._session, ScheduleRun, row)
        return self._session.get_one(ScheduleRun, run_id) if added else None

    def start(self, run: ScheduleRun, job_id: JobId) -> None:
        """The run is that job; it and the jobs that it makes are known by the schedule."""
        run.outcome, run.job_id = "started", job_id
        self._session.execute(
            update(Job)
            .where(Job.id == job_id, Job.tenant_id == self._schedule.tenant_id)
            .values(schedule_id=self._schedule.id, schedule_run_id=run.id)
        )
        self._session.flush()

    def end(self, run: ScheduleRun, outcome: Literal["skipped", "failed"], reason: LongleafError) -> None:
        """The run begins no job."""
        run.outcome, run.code, run.detail = outcome, reason.code, str(reason)
        self._session.flush()

    def open_jobs(self) -> Sequence[JobId]:
        """Jobs of earlier runs that have not ended."""
        query = select(Job.id).where(Job.schedule_id == self._schedule.id, Job.status.in_(_OPEN))
        return [JobId(each) for each in self._session.scalars(query)]

    def list_waiting(self, *, limit: int) -> Sequence[ScheduleRun]:
        """Oldest slot first."""
        return self._session.scalars(
            select(ScheduleRun)
            .where(ScheduleRun.schedule_id == self._schedule.id, _IS_WAITING)
            .order_by(ScheduleRun.slot_at)
            .limit(limit)
        ).all()

    def count_waiting(self) -> int:
        query = select(func.count()).where(ScheduleRun.schedule_id == self._schedule.id, _IS_WAITING)
        return self._session.scalar(query) or 0
