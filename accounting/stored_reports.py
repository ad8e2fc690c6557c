"""Cost reports made by a job and kept, so that a schedule can deliver them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, TypedDict

from sqlalchemy.orm import Session

from accounting.cost_pages import render_costs
from accounting.report_formats import (
    cost_report_as_csv,
    cost_report_as_json,
    savings_as_json,
    top_costs_as_json,
)
from accounting.report_intervals import IntervalName, named_interval
from accounting.reports import cost_report, parse_dimensions
from accounting.savings import find_savings
from accounting.top_costs import top_costs
from core.clock import utc_now
from core.html.page import ReportLanguage
from core.ids import JobId, ReportId, TenantId
from storage.database import Database
from storage.job_run import JobRun, RunOutcome
from storage.jobs import JobRepository
from storage.models import StoredReport
from storage.reports import StoredReports
from storage.webhooks import notify
from tenancy.principal import Principal
from tenancy.tenants import is_operators_tenant

COST_REPORT_KIND = "cost_report"


@dataclass(frozen=True, slots=True)
class ReportParameters:
    interval: IntervalName
    group_by: Sequence[str] = ("day", "stage")
    time_zone: str = "UTC"
    language: ReportLanguage = "en"

    def as_json(self) -> dict[str, Any]:
        """For `StoredReport.parameters`."""
        return asdict(self) | {"group_by": list(self.group_by)}

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> ReportParameters:
        """What `as_json` gave."""
        return cls(**stored)


def register_report(
    session: Session,
    principal: Principal,
    parameters: ReportParameters,
    *,
    max_attempts: int,
    now: datetime,
) -> StoredReport:
    """A queued report over the interval as it is now, in the caller's transaction.

    Raises:
        InvalidInput: unknown dimension or time zone.
    """
    parse_dimensions(parameters.group_by)
    interval = named_interval(parameters.interval, parameters.time_zone, now=now)
    assert interval.start is not None
    assert interval.end is not None
    job = JobRepository(session, principal.tenant_id).create(
        COST_REPORT_KIND,
        queue="batch",
        payload={},
        collection_id=None,
        key_id=principal.key_id,
        max_attempts=max_attempts,
    )
    return StoredReports(session, principal.tenant_id).create(
        JobId(job.id), parameters=parameters.as_json(), start_at=interval.start, end_at=interval.end
    )


class StoredReportPipeline:
    """Runs jobs of kind `cost_report`: no model is asked, so it costs nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def run(self, run: JobRun) -> RunOutcome:
        """Raises `Conflict` where the interval has lines of two currencies."""
        tenant_id = run.job.tenant_id
        with self._database.read() as session:
            report = StoredReports(session, tenant_id).get_by_job(run.job.id)
            made = _make(session, tenant_id, report)
        path = f"/v1/reports/costs/stored/{report.id}"
        with self._database.write() as session:
            StoredReports(session, tenant_id).complete(ReportId(report.id), **made, at=utc_now())
            notify(session, tenant_id, "report.ready", _describe(report, path))
            run.succeed(session)
        return "done"


class _Made(TypedDict):
    content: dict[str, Any]
    csv: str
    html: str


def _make(session: Session, tenant_id: TenantId, report: StoredReport) -> _Made:
    parameters = ReportParameters.of_json(report.parameters)
    start, end, zone = report.start_at, report.end_at, parameters.time_zone
    is_operators = is_operators_tenant(session, tenant_id)
    costs = cost_report(
        session,
        tenant_id,
        group_by=parameters.group_by,
        start=start,
        end=end,
        time_zone=zone,
        with_engine_cost=is_operators,
    )
    tops = top_costs(session, tenant_id, start=start, end=end, time_zone=zone, with_engine_cost=is_operators)
    savings = find_savings(session, tenant_id, start=start, end=end, time_zone=zone)
    return {
        "content": {
            "costs": cost_report_as_json(costs),
            "top": top_costs_as_json(tops),
            "savings": savings_as_json(savings),
        },
        "csv": cost_report_as_csv(costs),
        "html": render_costs(costs, tops, savings, tenant=tenant_id, language=parameters.language),
    }


def _describe(report: StoredReport, path: str) -> dict[str, Any]:
    return {
        "report_id": report.id,
        "job_id": report.job_id,
        **report.parameters,
        "start": report.start_at.isoformat(),
        "end": report.end_at.isoformat(),
        "links": {
            "report": path,
            "csv": f"{path}?format=csv",
            "html": f"{path}?format=html",
            "job": f"/v1/jobs/{report.job_id}",
        },
    }
