"""Queues are the operator's: an administrator of the default tenant."""

from __future__ import annotations

from fastapi import APIRouter
from sqlalchemy.orm import Session

from api.authentication import Operator
from api.dependencies import Services
from api.routes.documented import problems
from api.schemas.base import ListOf
from api.schemas.queues import NewPause, Pause, Queue, QueueTarget
from core.ids import TenantId
from storage.database import request_wake
from storage.listings import count_open_jobs
from storage.queues import QUEUES, QueuePauses, parse_queue
from tenancy.tenants import get_tenant

router = APIRouter(prefix="/v1/queues", tags=["queues"], responses=problems(401, 403, 422))


@router.get("")
def list_queues(_principal: Operator, services: Services) -> ListOf[Queue]:
    """How much waits and runs in each queue, and which are paused. For the operator."""
    with services.database.read() as session:
        return ListOf(items=_show(session), next_cursor=None)


@router.post("/{name}/pause", responses=problems(404))
def pause_queue(name: str, body: NewPause, _principal: Operator, services: Services) -> Queue:
    """Have no job of the queue begin, or none of one tenant, until it is resumed.

    What runs ends, or yields and waits then. It holds through restarts of everything. Jobs are
    accepted as before. For the operator.
    """
    with services.database.write() as session:
        queue = parse_queue(name)
        QueuePauses(session).pause(queue, _tenant(session, body), reason=body.reason)
        return next(each for each in _show(session) if each.name == queue)


@router.post("/{name}/resume", responses=problems(404))
def resume_queue(name: str, body: QueueTarget, _principal: Operator, services: Services) -> Queue:
    """Let jobs of the queue begin again; what was paused for one tenant is resumed for that tenant.

    For the operator.
    """
    with services.database.write() as session:
        queue = parse_queue(name)
        QueuePauses(session).resume(queue, _tenant(session, body))
        request_wake(session)
        return next(each for each in _show(session) if each.name == queue)


def _tenant(session: Session, body: QueueTarget) -> TenantId | None:
    if body.tenant_id is None:
        return None
    return TenantId(get_tenant(session, TenantId(body.tenant_id)).id)


def _show(session: Session) -> list[Queue]:
    counts, paused = count_open_jobs(session), QueuePauses(session).list_all()
    return [
        Queue(
            name=queue,
            num_queued=counts.get((queue, "queued"), 0),
            num_running=counts.get((queue, "running"), 0),
            pauses=[Pause.of(each) for each in paused if each.queue == queue],
        )
        for queue in QUEUES
    ]
