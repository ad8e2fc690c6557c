from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from core.clock import utc_now
from storage.models.base import Base


class StoredReport(Base):
    """A cost report that is kept as it was made. The job's status is the report's.

    `parameters` is what was asked for, `start_at` and `end_at` which instants that meant then. `content` is
    its JSON; it and its renderings are NULL until it is made.
    """

    __tablename__ = "stored_reports"
    __table_args__ = (Index("ix_stored_reports_listing", "tenant_id", "created_at", "id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), unique=True)
    parameters: Mapped[dict[str, Any]]
    start_at: Mapped[datetime]
    end_at: Mapped[datetime]
    content: Mapped[dict[str, Any] | None]
    csv: Mapped[str | None]
    html: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    finished_at: Mapped[datetime | None]
