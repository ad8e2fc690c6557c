"""The FastAPI application: `uvicorn api.app:create_app --factory`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError, version

from fastapi import Depends, FastAPI

from api import openapi, problems
from api.head_requests import HeadRequests
from api.job_events import JobEventReader
from api.known_parameters import refuse_unknown_parameters
from api.metrics import ApiMetrics
from api.request_context import RequestContext
from api.request_limits import RequestLimits
from api.routes import (
    answers,
    batches,
    budgets,
    collections,
    conversations,
    documents,
    evaluations,
    extractions,
    health,
    jobs,
    keys,
    ledger,
    pages,
    prices,
    questions,
    queues,
    quotes,
    reports,
    schedules,
    stored_reports,
    summaries,
    tenants,
    traces,
    uploads,
    webhooks,
)
from bootstrap.api_services import ApiServices, build_api_services
from core.logging import configure_logging
from core.settings import load_settings

_NOUNS = (
    collections,
    uploads,
    documents,
    pages,
    jobs,
    queues,
    questions,
    quotes,
    answers,
    traces,
    conversations,
    batches,
    evaluations,
    extractions,
    schedules,
    stored_reports,
    reports,
    ledger,
    prices,
    webhooks,
    summaries,
    budgets,
    keys,
    tenants,
    health,
)


def create_app(services: ApiServices | None = None) -> FastAPI:
    """The application.

    Args:
        services: what it stands on, closed by whoever made them; None: built from the settings,
            and closed when the application stops.
    """
    owned = None
    if services is None:
        settings = load_settings()
        configure_logging(settings.log_level, settings.log_format)
        services = owned = build_api_services(settings)
    events = JobEventReader(services.settings.resolved_redis_url)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        await events.aclose()
        if owned is not None:
            owned.close()

    app = FastAPI(
        title=openapi.TITLE,
        description=openapi.DESCRIPTION,
        version=_version(),
        openapi_tags=openapi.TAGS,
        generate_unique_id_function=openapi.operation_id,
        lifespan=lifespan,
        redirect_slashes=False,
        dependencies=[Depends(refuse_unknown_parameters)],
    )
    app.state.services = services
    app.state.job_events = events
    app.state.metrics = ApiMetrics(services.database)
    problems.install(app)
    # The one added last is the outermost.
    app.add_middleware(RequestLimits)
    app.add_middleware(RequestContext, metrics=app.state.metrics)
    app.add_middleware(HeadRequests)
    for noun in _NOUNS:
        app.include_router(noun.router)
    openapi.add_problem_schema(app)
    return app


def _version() -> str:
    try:
        return version("longleaf")
    except PackageNotFoundError:
        return "0+uninstalled"
