from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BeforeValidator

from accounting.report_formats import cost_report_as_csv, cost_report_as_json, usage_as_json
from accounting.reports import cost_report, usage_summary
from api.authentication import Reporter
from api.dependencies import Services
from api.routes.documented import problems
from api.schemas import reports as schemas

router = APIRouter(prefix="/v1", tags=["reports"], responses=problems(401, 403, 422))

CSV = "text/csv"
_FIRST_YEAR, _LAST_YEAR = 1970, 9998  # within these no time zone leads out of the calendar


def _moment(text: object) -> object:
    """A date stays one, since it means the first instant of a day in the report's zone."""
    if not isinstance(text, str):
        return text
    try:
        moment = date.fromisoformat(text) if len(text) == 10 else datetime.fromisoformat(text)
    except ValueError as error:
        message = "it must be a date (2026-11-30) or an ISO 8601 moment (write its + as %2B)"
        raise ValueError(message) from error
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        raise ValueError(f"its year must be from {_FIRST_YEAR} to {_LAST_YEAR}")
    return moment


Start = Annotated[
    datetime | date | None, BeforeValidator(_moment), Query(description="First instant that counts.")
]
End = Annotated[
    datetime | date | None,
    BeforeValidator(_moment),
    Query(description="First instant that no longer counts."),
]
TimeZone = Annotated[
    str, Query(max_length=100, description="IANA name; whose days, months and dates they are.")
]


@router.get("/usage", response_model=schemas.UsageSummary)
def get_usage(
    principal: Reporter,
    services: Services,
    start: Start = None,
    end: End = None,
    time_zone: TimeZone = "UTC",
) -> JSONResponse:
    """The tenant's tokens by stage, the cached share of prompts, and the cost."""
    with services.database.read() as session:
        usage = usage_summary(session, principal.tenant_id, start=start, end=end, time_zone=time_zone)
    return JSONResponse(usage_as_json(usage))


_AS_CSV: dict[int | str, dict[str, Any]] = {
    200: {"description": "The report.", "content": {CSV: {"schema": {"type": "string"}}}}
}


@router.get("/reports/costs", response_model=schemas.CostReport, responses=_AS_CSV | problems(409))
def get_cost_report(
    request: Request,
    principal: Reporter,
    services: Services,
    group_by: Annotated[
        list[str],
        Query(
            max_length=10,
            description="Dimensions, separated by commas: "
            "`day month stage model collection document key job tenant`.",
        ),
    ] = [],  # noqa: B006  # FastAPI copies it
    start: Start = None,
    end: End = None,
    time_zone: TimeZone = "UTC",
    format: Annotated[
        Literal["json", "csv"] | None, Query(description="Left out: as `Accept` says, else JSON.")
    ] = None,
) -> Response:
    """What the tenant's work cost, grouped as asked, as JSON or CSV."""
    names = [name.strip() for value in group_by for name in value.split(",") if name.strip()]
    with services.database.read() as session:
        report = cost_report(
            session, principal.tenant_id, group_by=names, start=start, end=end, time_zone=time_zone
        )
    if format == "csv" or (format is None and CSV in request.headers.get("accept", "")):
        return Response(
            cost_report_as_csv(report),
            media_type=CSV,
            headers={"Content-Disposition": 'attachment; filename="costs.csv"'},
        )
    return JSONResponse(cost_report_as_json(report))
