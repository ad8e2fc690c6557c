from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any, Literal, TypedDict

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BeforeValidator

from accounting.cost_pages import render_costs, render_invoice
from accounting.invoices import make_invoice
from accounting.report_formats import (
    cost_report_as_csv,
    cost_report_as_json,
    invoice_as_csv,
    invoice_as_json,
    savings_as_json,
    top_costs_as_json,
    usage_as_json,
)
from accounting.reports import cost_report, usage_summary
from accounting.savings import find_savings
from accounting.top_costs import MAX_TOP, top_costs
from api.authentication import Reporter, require_operator
from api.dependencies import Services
from api.routes.documented import problems
from api.schemas import reports as schemas
from core.clock import utc_now
from core.errors import InvalidInput
from core.html.page import PAGE_HEADERS, ReportLanguage
from tenancy.tenants import is_operators_tenant

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
Format = Annotated[
    Literal["json", "csv", "html"] | None, Query(description="Left out: as `Accept` says, else JSON.")
]
InLanguage = Annotated[ReportLanguage, Query(description="The language of the page's own words.")]


class _Bounds(TypedDict):
    start: datetime | date | None
    end: datetime | date | None
    time_zone: str


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
            "`day week month stage model collection document key job job_kind schedule tenant`.",
        ),
    ] = [],  # noqa: B006  # FastAPI copies it
    start: Start = None,
    end: End = None,
    time_zone: TimeZone = "UTC",
    format: Format = None,
    language: InLanguage = "en",
    all_tenants: Annotated[bool, Query(description="For the operator: everybody's; not as a page.")] = False,
) -> Response:
    """What the tenant's work cost, grouped as asked, as JSON, CSV or a page with plots that prints.

    What the machine cost, and the margin, are told to the operator's tenant alone.
    """
    names = [name.strip() for value in group_by for name in value.split(",") if name.strip()]
    with services.database.read() as session:
        if all_tenants:
            require_operator(session, principal, for_what="reports of all tenants are the operator's")
            if format == "html":
                raise InvalidInput(
                    "A page is of one tenant, and `all_tenants` was asked for.",
                    remedy="Ask for JSON or CSV, grouped by `tenant`.",
                )
        rated = is_operators_tenant(session, principal.tenant_id)
        report = cost_report(
            session,
            None if all_tenants else principal.tenant_id,
            group_by=names,
            start=start,
            end=end,
            time_zone=time_zone,
            with_engine_cost=rated,
        )
        if format == "html":
            bounds: _Bounds = {"start": start, "end": end, "time_zone": time_zone}
            tops = top_costs(session, principal.tenant_id, **bounds, with_engine_cost=rated)
            savings = find_savings(session, principal.tenant_id, **bounds)
            page = render_costs(report, tops, savings, tenant=principal.tenant_id, language=language)
            return HTMLResponse(page, headers=PAGE_HEADERS)
    if _wants_csv(request, format):
        return _csv(cost_report_as_csv(report), "costs.csv")
    return JSONResponse(cost_report_as_json(report))


@router.get("/reports/costs/top", response_model=schemas.TopCosts, responses=problems(409))
def get_top_costs(
    principal: Reporter,
    services: Services,
    start: Start = None,
    end: End = None,
    time_zone: TimeZone = "UTC",
    limit: Annotated[int, Query(ge=1, le=MAX_TOP, description="At most so many of each.")] = 10,
) -> JSONResponse:
    """The documents and the questions that cost most."""
    with services.database.read() as session:
        tops = top_costs(
            session,
            principal.tenant_id,
            start=start,
            end=end,
            time_zone=time_zone,
            limit=limit,
            with_engine_cost=is_operators_tenant(session, principal.tenant_id),
        )
    return JSONResponse(top_costs_as_json(tops))


@router.get("/reports/savings", response_model=schemas.Savings, responses=problems(409))
def get_savings(
    principal: Reporter,
    services: Services,
    start: Start = None,
    end: End = None,
    time_zone: TimeZone = "UTC",
) -> JSONResponse:
    """What was spared: cached tokens of prompts, and passages of uploads that had been embedded before."""
    with services.database.read() as session:
        savings = find_savings(session, principal.tenant_id, start=start, end=end, time_zone=time_zone)
    return JSONResponse(savings_as_json(savings))


@router.get("/reports/invoice", response_model=schemas.Invoice, responses=_AS_CSV | problems(409))
def get_invoice(
    month: Annotated[str, Query(max_length=20, description="Such as `2026-11`.")],
    request: Request,
    principal: Reporter,
    services: Services,
    time_zone: TimeZone = "UTC",
    format: Format = None,
    language: InLanguage = "en",
) -> Response:
    """What the tenant owes for a month; the same whenever it is asked for after the month."""
    with services.database.read() as session:
        invoice = make_invoice(session, principal.tenant_id, month, time_zone=time_zone, now=utc_now())
    if format == "html":
        page = render_invoice(invoice, tenant=principal.tenant_id, language=language)
        return HTMLResponse(page, headers=PAGE_HEADERS)
    if _wants_csv(request, format):
        return _csv(invoice_as_csv(invoice), f"invoice-{invoice.number}.csv")
    return JSONResponse(invoice_as_json(invoice))


def _wants_csv(request: Request, format: str | None) -> bool:
    return format == "csv" or (format is None and CSV in request.headers.get("accept", ""))


def _csv(content: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=CSV, headers=headers)
