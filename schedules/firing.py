"""Beginning what is due. Each function works in the caller's transaction on a schedule that it holds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from core.errors import Conflict, InvalidInput, LongleafError, NotFound
from core.ids import JobId, KeyId, ScheduleId, TenantId
from schedules.actions import Actions, ScheduledAction
from schedules.catch_up import MAX_CAUGHT_UP, choose_slots, is_on_time
from schedules.registration import timetable_of
from storage.jobs import JobRepository
from storage.models import Schedule, ScheduleRun
from storage.schedules import ScheduleQueue, ScheduleRepository, ScheduleRuns
from storage.webhooks import notify
from tenancy.principal import Principal

log = structlog.get_logger()

MAX_WAITING = MAX_CAUGHT_UP
"""Most runs of a schedule that wait for the one before; a slot that finds so many is skipped."""


class SlotMissed(LongleafError):
    code = "slot_missed"
    title = "No scheduler ran when it was due"


class RunOverlaps(LongleafError):
    code = "run_overlaps"
    title = "The run before it had not ended"


@dataclass(frozen=True, slots=True)
class ScheduleRunner:
    """Turns slots into jobs: one run for each slot, however many runners there are."""

    actions: Actions

    def fire(self, session: Session, schedule_id: ScheduleId, now: datetime) -> None:
        """Begin, or account for, every slot of the schedule up to now. Does nothing where none is due, or
        another runner is at it."""
        schedule = ScheduleQueue(session).claim_due(schedule_id, now)
        if schedule is None or schedule.next_at is None:
            return
        try:
            timetable = timetable_of(schedule)
        except InvalidInput as error:  # its zone has gone from the time zone database, say
            self._pause(schedule, now, error)
            return
        due = choose_slots(timetable, schedule.next_at, now, schedule.catch_up)  # type: ignore[arg-type]
        if due.skipped is not None:
            self._skip_missed(session, schedule, *due.skipped)
        for slot in due.run:
            self._fire_slot(session, schedule, slot, now)
            if schedule.paused_at is not None:
                return
        schedule.next_at = timetable.next_after(now)

    def start_waiting(self, session: Session, schedule_id: ScheduleId, now: datetime) -> None:
        """Begin the oldest run that waited for the one before it, once that has ended."""
        schedule = ScheduleQueue(session).claim_unblocked(schedule_id)
        if schedule is not None:
            for run in ScheduleRuns(session, schedule).list_waiting(limit=1):
                self._start(session, schedule, run, now)

    def run_now(self, session: Session, principal: Principal, schedule_id: ScheduleId) -> ScheduleRun:
        """A run that somebody asked for: begun at once, beside any other, paused or not.

        Raises:
            NotFound: the tenant has no such schedule.
            LongleafError: whatever keeps the action from beginning; nothing is recorded then.
        """
        schedule = ScheduleRepository(session, principal.tenant_id).hold(schedule_id)
        runs = ScheduleRuns(session, schedule)
        run = runs.add(None)
        assert run is not None  # only slots are unique
        runs.start(run, self._action(schedule).register(session, principal, schedule.parameters))
        return run

    def _fire_slot(self, session: Session, schedule: Schedule, slot: datetime, now: datetime) -> None:
        runs = ScheduleRuns(session, schedule)
        run = runs.add(slot)
        if run is None:
            return
        if not runs.open_jobs() and runs.count_waiting() == 1:
            self._start(session, schedule, run, now)
            return
        # Slots that are made up for run one after another: `overlap` is about those on time.
        match schedule.overlap if is_on_time(slot, now) else "queue":
            case "cancel_previous":
                _cancel(session, schedule, runs)
                self._start(session, schedule, run, now)
            case "queue" if runs.count_waiting() <= MAX_WAITING:
                pass  # `start_waiting` begins it
            case "queue":
                self._skip_overlapping(session, schedule, run, f"{MAX_WAITING} earlier runs still waited")
            case _:
                self._skip_overlapping(session, schedule, run, "the run before it had not ended")

    def _start(self, session: Session, schedule: Schedule, run: ScheduleRun, now: datetime) -> None:
        try:
            with session.begin_nested():
                self._register(session, schedule, run)
        except SQLAlchemyError:
            raise  # it passes, and the slot is still due then
        except LongleafError as error:
            if isinstance(error, NotFound):
                self._pause(schedule, now, error)
            self._end(session, schedule, run, "failed", error)
        except Exception as fault:  # an action's own: it must not hold the schedule up for ever
            log.exception("schedule.crashed", schedule_id=schedule.id, action=schedule.action)
            reason = LongleafError(
                f"The action {schedule.action!r} hit an unexpected {type(fault).__name__}.",
                remedy="The scheduler's log has the trace under the schedule's id.",
            )
            self._end(session, schedule, run, "failed", reason)

    def _register(self, session: Session, schedule: Schedule, run: ScheduleRun) -> None:
        action = self._action(schedule)
        # Whoever made the schedule had the scope then; the work is the tenant's since.
        principal = Principal(TenantId(schedule.tenant_id), KeyId(schedule.key_id), frozenset({action.scope}))
        job_id = action.register(session, principal, schedule.parameters)
        ScheduleRuns(session, schedule).start(run, job_id)
        log.info("schedule.fired", schedule_id=schedule.id, slot_at=run.slot_at, job_id=job_id)

    def _action(self, schedule: Schedule) -> ScheduledAction:
        try:
            return self.actions[schedule.action]
        except KeyError as error:
            raise NotFound(
                f"This version of Longleaf knows no action {schedule.action!r}.",
                remedy="Delete the schedule, or upgrade the scheduler.",
                schedule_id=schedule.id,
            ) from error

    def _skip_missed(self, session: Session, schedule: Schedule, first: datetime, last: datetime) -> None:
        run = ScheduleRuns(session, schedule).add(last, first_slot_at=first)
        if run is not None:
            when = f"from {first.isoformat()} to {last.isoformat()}"
            policy = f"catch_up {schedule.catch_up!r} does not make up for them"
            reason = SlotMissed(f"No scheduler ran when the slots {when} were due, and {policy}.")
            self._end(session, schedule, run, "skipped", reason)

    def _skip_overlapping(self, session: Session, schedule: Schedule, run: ScheduleRun, why: str) -> None:
        reason = RunOverlaps(
            f"The slot was skipped: {why}.", remedy="Run it less often, or change `overlap`."
        )
        self._end(session, schedule, run, "skipped", reason)

    def _end(
        self,
        session: Session,
        schedule: Schedule,
        run: ScheduleRun,
        outcome: Literal["skipped", "failed"],
        reason: LongleafError,
    ) -> None:
        ScheduleRuns(session, schedule).end(run, outcome, reason)
        log.warning(
            "schedule.missed",
            schedule_id=schedule.id,
            slot_at=run.slot_at,
            outcome=outcome,
            code=reason.code,
        )
        notify(session, TenantId(schedule.tenant_id), "schedule.missed", _describe(schedule, run))

    def _pause(self, schedule: Schedule, now: datetime, reason: LongleafError) -> None:
        schedule.paused_at, schedule.next_at = now, None
        schedule.pause_code, schedule.pause_detail = reason.code, str(reason)
        log.warning("schedule.paused", schedule_id=schedule.id, code=reason.code)


def _describe(schedule: Schedule, run: ScheduleRun) -> dict[str, Any]:
    return {
        "schedule_id": schedule.id,
        "name": schedule.name,
        "action": schedule.action,
        "run_id": run.id,
        "slot_at": run.slot_at and run.slot_at.isoformat(),
        "first_slot_at": run.first_slot_at and run.first_slot_at.isoformat(),
        "outcome": run.outcome,
        "reason": {"code": run.code, "detail": run.detail},
        "paused": schedule.paused_at is not None,
    }


def _cancel(session: Session, schedule: Schedule, runs: ScheduleRuns) -> None:
    jobs = JobRepository(session, TenantId(schedule.tenant_id))
    for job_id in runs.open_jobs():
        try:
            jobs.request_cancel(JobId(job_id))
        except Conflict:
            continue  # it has ended by itself
