"""Cost reports that are kept."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session, defer

from core.errors import NotFound
from core.ids import JobId, ReportId, TenantId, new_id
from storage.models import StoredReport
from storage.paging import Page, PageRequest, paginate


class StoredReports:
    """Sees only its tenant's."""

    def __init__(self, session: Session, tenant_id: TenantId) -> None:
        self._session = session
        self._tenant_id = tenant_id

    def create(
        self, job_id: JobId, *, parameters: dict[str, Any], start_at: datetime, end_at: datetime
    ) -> StoredReport:
        report = StoredReport(
            id=new_id("rep"),
            tenant_id=self._tenant_id,
            job_id=job_id,
            parameters=parameters,
            start_at=start_at,
            end_at=end_at,
        )
        self._session.add(report)
        self._session.flush()
        return report

    def get(self, report_id: ReportId) -> StoredReport:
        """Raises `NotFound` for an unknown or foreign id."""
        found = self._session.scalar(
            select(StoredReport).where(
                StoredReport.id == report_id, StoredReport.tenant_id == self._tenant_id
            )
        )
        if found is None:
            raise NotFound(
                f"There is no stored report {report_id}.",
                remedy="List yours with GET /v1/reports/costs/stored.",
                report_id=report_id,
            )
        return found

    def get_by_job(self, job_id: JobId) -> StoredReport:
        """The report that the job makes."""
        return self._session.scalars(
            select(StoredReport).where(
                StoredReport.job_id == job_id, StoredReport.tenant_id == self._tenant_id
            )
        ).one()

    def list_page(self, page: PageRequest) -> Page[StoredReport]:
        """Without what is in them."""
        heavy = (StoredReport.content, StoredReport.csv, StoredReport.html)
        query = select(StoredReport).where(StoredReport.tenant_id == self._tenant_id)
        return paginate(
            self._session, query.options(*(defer(each, raiseload=True) for each in heavy)), StoredReport, page
        )

    def complete(
        self, report_id: ReportId, *, content: dict[str, Any], csv: str, html: str, at: datetime
    ) -> None:
        self._session.execute(
            update(StoredReport)
            .where(StoredReport.id == report_id, StoredReport.tenant_id == self._tenant_id)
            .values(content=content, csv=csv, html=html, finished_at=at)
        )
