"""Making and changing schedules: what is checked before a row is written.

Used by the API, so it imports no model.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from sqlalchemy.orm import Session

from core.errors import InvalidInput
from core.ids import ScheduleId
from schedules.timetable import Timetable, make_timetable
from storage.models import Schedule
from storage.schedules import ScheduleRepository
from tenancy.principal import Principal

Overlap = Literal["skip", "queue", "cancel_previous"]

_TIMES = frozenset({"cron", "time_zone", "every_seconds", "start_at", "end_at"})


def register_schedule(
    session: Session, principal: Principal, *, now: datetime, paused: bool = False, **values: Any
) -> Schedule:
    """A schedule, due from its first slot after now on, in the caller's transaction.

    Raises:
        InvalidInput: as `make_timetable`, or there is no slot to come.
    """
    values["start_at"] = anchor_of(values["every_seconds"], values["start_at"], now)
    next_at = _next_slot(_timetable(values), now)
    return ScheduleRepository(session, principal.tenant_id).create(
        **values,
        key_id=principal.key_id,
        next_at=None if paused else next_at,
        paused_at=now if paused else None,
    )


def change_schedule(
    session: Session,
    principal: Principal,
    schedule_id: ScheduleId,
    changes: Mapping[str, Any],
    *,
    now: datetime,
) -> Schedule:
    """The schedule with `changes`; `paused` among them pauses or resumes it.

    Slots that pass while it is paused are not missed: nothing makes up for them.

    Raises:
        NotFound: the tenant has no such schedule.
        InvalidInput: as `register_schedule`.
    """
    schedule = ScheduleRepository(session, principal.tenant_id).hold(schedule_id)
    for name in changes.keys() - {"paused"}:
        setattr(schedule, name, changes[name])
    schedule.start_at = anchor_of(schedule.every_seconds, schedule.start_at, now)
    if "paused" in changes:
        schedule.paused_at = (schedule.paused_at or now) if changes["paused"] else None
        schedule.pause_code = schedule.pause_detail = None
    if changes.keys() & _TIMES or changes.get("paused") is False:
        schedule.next_at = _next_slot(timetable_of(schedule), now)
    if schedule.paused_at is not None:
        schedule.next_at = None
    session.flush()
    return schedule


def timetable_of(schedule: Schedule) -> Timetable:
    """Raises `InvalidInput` where it is none (any more)."""
    return _timetable({name: getattr(schedule, name) for name in _TIMES})


def anchor_of(every_seconds: int | None, start_at: datetime | None, now: datetime) -> datetime | None:
    """`start_at` in whole seconds; an interval that has none is counted from now."""
    if every_seconds is not None and start_at is None:
        start_at = now
    return None if start_at is None else start_at.replace(microsecond=0)


def _timetable(values: Mapping[str, Any]) -> Timetable:
    return make_timetable(**{name: values[name] for name in _TIMES})


def _next_slot(timetable: Timetable, now: datetime) -> datetime:
    slot = timetable.next_after(now)
    if slot is None:
        raise InvalidInput(
            "The schedule has no slot to come: none lies between now and its `end_at`.",
            remedy="Give a later `end_at`, or none.",
        )
    return slot
