from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse
from sqlalchemy.orm import Session

from accounting.stored_reports import register_report
from api.authentication import Reporter
from api.dependencies import IdempotencyKey, NewestFirst, Services
from api.idempotency import make_once, request_hash
from api.routes.documented import problems
from api.schemas.base import ListOf
from api.schemas.reports import FullStoredReport, NewCostReport, StoredReport
from core.clock import utc_now
from core.errors import Conflict
from core.html.page import PAGE_HEADERS
from core.ids import JobId, ReportId, TenantId
from storage import models
from storage.listings import Listings
from storage.reports import StoredReports

router = APIRouter(prefix="/v1/reports/costs/stored", tags=["reports"], responses=problems(401, 403, 422))

_TEXTS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"text/csv": {"schema": {"type": "string"}}, "text/html": {"schema": {"type": "string"}}}
    }
}


@router.post("", status_code=202, responses=problems(409))
def create_stored_report(
    body: NewCostReport,
    principal: Reporter,
    services: Services,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> StoredReport:
    """Make a cost report and keep it; what a schedule of the action `cost_report` does.

    Follow it at `Location`, or its job; webhooks hear `report.ready`.
    """
    with services.database.write() as session:

        def make() -> tuple[str, models.StoredReport]:
            row = register_report(
                session,
                principal,
                body.parameters(),
                max_attempts=services.settings.worker.max_attempts,
                now=utc_now(),
            )
            return row.id, row

        made = make_once(
            session,
            principal.tenant_id,
            idempotency_key,
            request_hash("create_stored_report", body.model_dump(mode="json")),
            make=make,
            load=lambda identifier: StoredReports(session, principal.tenant_id).get(ReportId(identifier)),
        )
        shown = _show(session, principal.tenant_id, [made.resource])[0]
    response.headers["Location"] = f"/v1/reports/costs/stored/{shown.id}"
    return shown


@router.get("")
def list_stored_reports(page: NewestFirst, principal: Reporter, services: Services) -> ListOf[StoredReport]:
    """Reports that are kept, newest first, without their content."""
    with services.database.read() as session:
        rows = StoredReports(session, principal.tenant_id).list_page(page)
        items = _show(session, principal.tenant_id, rows.items)
    return ListOf(items=items, next_cursor=rows.next_cursor)


@router.get("/{report_id}", response_model=FullStoredReport, responses=_TEXTS | problems(404, 409))
def get_stored_report(
    report_id: str,
    principal: Reporter,
    services: Services,
    format: Literal["json", "csv", "html"] = "json",
) -> Response | FullStoredReport:
    """The report as it was made, with the dearest things and the savings; or its rows as CSV; or the page."""
    with services.database.read() as session:
        row = StoredReports(session, principal.tenant_id).get(ReportId(report_id))
        job = Listings(session, principal.tenant_id).jobs([JobId(row.job_id)])[JobId(row.job_id)]
        if format == "json":
            return FullStoredReport.of(row, job)
        text = row.csv if format == "csv" else row.html
    if text is None:
        raise Conflict(
            f"Report {report_id} is not made: its job is {job.status}.",
            remedy=f"Wait for job {job.id}; where it has failed, ask for another report.",
            report_id=report_id,
        )
    if format == "html":
        return HTMLResponse(text, headers=PAGE_HEADERS)
    headers = {"Content-Disposition": f'attachment; filename="{report_id}.csv"'}
    return Response(text, media_type="text/csv", headers=headers)


def _show(session: Session, tenant_id: TenantId, rows: Sequence[models.StoredReport]) -> list[StoredReport]:
    jobs = Listings(session, tenant_id).jobs([JobId(row.job_id) for row in rows])
    return [StoredReport.of(row, jobs[JobId(row.job_id)]) for row in rows]
