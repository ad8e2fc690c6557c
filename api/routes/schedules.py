from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Query, Response
from sqlalchemy.orm import Session

from accounting.schedule_costs import costs_of_runs
from api.authentication import Planner
from api.dependencies import IdempotencyKey, NewestFirst, Services
from api.idempotency import make_once, request_hash
from api.routes.documented import problems
from api.schemas.base import ListOf
from api.schemas.schedulable_actions import read_order
from api.schemas.schedules import (
    MAX_PREVIEWED,
    NewSchedule,
    Schedule,
    ScheduleChange,
    SchedulePreview,
    ScheduleRun,
    Slots,
)
from bootstrap.api_services import ApiServices
from bootstrap.schedulable_actions import build_schedule_runner
from core.clock import utc_now
from core.ids import CollectionId, JobId, ScheduleId, ScheduleRunId, TenantId
from schedules.registration import anchor_of, change_schedule, register_schedule, timetable_of
from schedules.timetable import Timetable, make_timetable
from storage import models
from storage.collections import CollectionRepository
from storage.listings import Listings
from storage.schedules import ScheduleRepository
from tenancy.principal import Principal, require_scope

router = APIRouter(prefix="/v1/schedules", tags=["schedules"], responses=problems(401, 403, 422))


@router.post("", status_code=201, responses=problems(404, 409))
def create_schedule(
    body: NewSchedule,
    principal: Planner,
    services: Services,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> Schedule:
    """Have work begin by itself: by a cron expression in a time zone, or every so many seconds.

    Each slot has exactly one run, through changes of the clocks, downtime and several schedulers. The work
    is done, and billed, as the key that makes the schedule would have it done; it takes the scope that
    doing it at once takes.
    """
    order = read_order(body.action, body.parameters)
    _require_scope_of(services, principal, body.action)
    with services.database.write() as session:

        def make() -> tuple[str, models.Schedule]:
            _require_collection(session, principal.tenant_id, order)
            values = body.model_dump() | {"parameters": order}
            row = register_schedule(session, principal, now=utc_now(), **values)
            return row.id, row

        made = make_once(
            session,
            principal.tenant_id,
            idempotency_key,
            request_hash("create_schedule", body.model_dump(mode="json")),
            make=make,
            load=lambda identifier: _get(session, principal, identifier),
        )
        shown = Schedule.of(made.resource)
    response.headers["Location"] = f"/v1/schedules/{shown.id}"
    return shown


@router.get("")
def list_schedules(
    page: NewestFirst,
    principal: Planner,
    services: Services,
    action: Annotated[str | None, Query(max_length=50, description="Only those that do this.")] = None,
) -> ListOf[Schedule]:
    """The tenant's schedules, newest first."""
    with services.database.read() as session:
        rows = ScheduleRepository(session, principal.tenant_id).list_page(page, action=action)
    return ListOf(items=[Schedule.of(row) for row in rows.items], next_cursor=rows.next_cursor)


@router.post("/preview")
def preview_schedule(body: SchedulePreview, principal: Planner) -> Slots:
    """When a schedule like this would be due; nothing is made."""
    now = utc_now()
    timetable = make_timetable(
        cron=body.cron,
        time_zone=body.time_zone,
        every_seconds=body.every_seconds,
        start_at=anchor_of(body.every_seconds, body.start_at, now),
        end_at=body.end_at,
    )
    return _next_slots(timetable, body.count, body.time_zone)


@router.get("/{schedule_id}", responses=problems(404))
def get_schedule(schedule_id: str, principal: Planner, services: Services) -> Schedule:
    """One schedule."""
    with services.database.read() as session:
        return Schedule.of(_get(session, principal, schedule_id))


@router.patch("/{schedule_id}", responses=problems(404))
def update_schedule(
    schedule_id: str, body: ScheduleChange, principal: Planner, services: Services
) -> Schedule:
    """Change, pause or resume a schedule. It is due next at its first slot from now on."""
    changes = body.changes()
    with services.database.write() as session:
        row = _get(session, principal, schedule_id)
        _require_scope_of(services, principal, row.action)
        if "parameters" in changes:
            changes["parameters"] = read_order(row.action, changes["parameters"])
            _require_collection(session, principal.tenant_id, changes["parameters"])
        return Schedule.of(
            change_schedule(session, principal, ScheduleId(schedule_id), changes, now=utc_now())
        )


@router.delete("/{schedule_id}", status_code=204, responses=problems(404))
def delete_schedule(schedule_id: str, principal: Planner, services: Services) -> None:
    """Delete a schedule. Jobs that it has begun go on; what waited for them is dropped."""
    with services.database.write() as session:
        row = _get(session, principal, schedule_id)
        _require_scope_of(services, principal, row.action)
        ScheduleRepository(session, principal.tenant_id).delete(ScheduleId(schedule_id), at=utc_now())


@router.post("/{schedule_id}/run", status_code=202, responses=problems(404, 409))
def run_schedule(
    schedule_id: str,
    principal: Planner,
    services: Services,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> ScheduleRun:
    """Begin its work now, beside whatever runs, paused or not. Its slots stay as they are."""
    with services.database.write() as session:
        schedule = _get(session, principal, schedule_id)
        _require_scope_of(services, principal, schedule.action)
        runner = build_schedule_runner(services.settings)

        def make() -> tuple[str, models.ScheduleRun]:
            run = runner.run_now(session, principal, ScheduleId(schedule_id))
            return run.id, run

        made = make_once(
            session,
            principal.tenant_id,
            idempotency_key,
            request_hash("run_schedule", schedule_id),
            make=make,
            load=ScheduleRepository(session, principal.tenant_id).get_run,
        )
        shown = _show_runs(session, principal, [made.resource])[0]
    response.headers["Location"] = f"/v1/jobs/{shown.job_id}"
    return shown


@router.get("/{schedule_id}/runs", responses=problems(404))
def list_schedule_runs(
    schedule_id: str, page: NewestFirst, principal: Planner, services: Services
) -> ListOf[ScheduleRun]:
    """What became of each slot, newest first: its job and cost, or why there was none."""
    with services.database.read() as session:
        schedules = ScheduleRepository(session, principal.tenant_id)
        rows = schedules.list_runs(ScheduleId(schedule_id), page)
        items = _show_runs(session, principal, rows.items)
    return ListOf(items=items, next_cursor=rows.next_cursor)


@router.get("/{schedule_id}/next", responses=problems(404))
def list_next_slots(
    schedule_id: str,
    principal: Planner,
    services: Services,
    count: Annotated[int, Query(ge=1, le=MAX_PREVIEWED, description="Slots to show.")] = 10,
) -> Slots:
    """When it is due next; of a paused one, when it would be."""
    with services.database.read() as session:
        row = _get(session, principal, schedule_id)
    return _next_slots(timetable_of(row), count, row.time_zone)


# ---- parts -----------------------------------------------------------------------------------


def _get(session: Session, principal: Principal, schedule_id: str) -> models.Schedule:
    return ScheduleRepository(session, principal.tenant_id).get(ScheduleId(schedule_id))


def _require_scope_of(services: ApiServices, principal: Principal, action: str) -> None:
    require_scope(principal, build_schedule_runner(services.settings).actions[action].scope)


def _require_collection(session: Session, tenant_id: TenantId, order: dict[str, str]) -> None:
    """What has gone since pauses a schedule; what is not there now is a slip."""
    if order.get("collection_id"):
        CollectionRepository(session, tenant_id).get(CollectionId(order["collection_id"]))


def _next_slots(timetable: Timetable, count: int, time_zone: str) -> Slots:
    moments = list(islice(timetable.slots_after(utc_now()), count))
    return Slots.of(moments, time_zone)


def _show_runs(
    session: Session, principal: Principal, rows: Sequence[models.ScheduleRun]
) -> list[ScheduleRun]:
    ids = [ScheduleRunId(row.id) for row in rows]
    costs = costs_of_runs(session, principal.tenant_id, ids)
    jobs = Listings(session, principal.tenant_id).jobs([JobId(row.job_id) for row in rows if row.job_id])
    return [
        ScheduleRun.of(
            row,
            job=jobs.get(JobId(row.job_id)) if row.job_id else None,
            costs=costs.get(ScheduleRunId(row.id), {}),
        )
        for row in rows
    ]
