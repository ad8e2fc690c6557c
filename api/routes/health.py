from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, Response
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from api.dependencies import JobEvents, Services
from api.schemas.health import Liveness, Readiness, ServiceInfo
from core.errors import LongleafError
from storage.database import Database

router = APIRouter(tags=["operation"])


@router.get("/")
async def describe_service(request: Request) -> ServiceInfo:
    """What this server is, and where its documentation lies."""
    return ServiceInfo(version=request.app.version)


@router.get("/healthz")
async def check_liveness() -> Liveness:
    """The process answers. Needs no key, asks nothing else."""
    return Liveness()


@router.get(
    "/readyz",
    response_model=Readiness,
    responses={503: {"model": Readiness, "description": "Something is missing; `checks` says what."}},
)
async def check_readiness(services: Services, events: JobEvents) -> Response:
    """Database, its migrations and Redis are in order. Needs no key."""
    checks = {
        "database": await run_in_threadpool(_attempt, services.database.ping),
        "migrations": await run_in_threadpool(_attempt, lambda: _require_migrated(services.database)),
        "redis": "ok",
    }
    try:
        await events.ping()
    except (RedisError, OSError):
        checks["redis"] = "Redis does not answer. Check LONGLEAF_REDIS_URL and that it runs."
    ready = all(state == "ok" for state in checks.values())
    return JSONResponse(Readiness(ready=ready, checks=checks).model_dump(), 200 if ready else 503)


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def get_metrics(request: Request) -> Response:
    """Metrics in Prometheus' text format. Needs no key, names no tenant."""
    body, media_type = request.app.state.metrics.render()
    return Response(body, media_type=media_type)


def _attempt(check: Callable[[], None]) -> str:
    """`ok`, or why not; never more than an operator may publish."""
    try:
        check()
    except LongleafError as error:
        return str(error)
    except SQLAlchemyError as error:
        return f"The database failed with {type(error).__name__}; the log has more."
    return "ok"


def _require_migrated(database: Database) -> None:
    from storage import migrate  # alembic is a fifth of what the process would import to start

    missing = migrate.pending(database)
    if missing:
        raise LongleafError(
            f"{len(missing)} migrations are pending.", remedy="Run `longleaf up`, or migrate the database."
        )
