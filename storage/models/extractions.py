from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from core.clock import utc_now
from storage.models.base import Base


class Extraction(Base):
    """A table wanted of a collection: a JSON schema's properties are its columns, documents its rows.

    `parameters` is what was asked for: the schema and how to go about it. The job's status is the
    extraction's.
    """

    __tablename__ = "extractions"
    __table_args__ = (Index("ix_extractions_listing", "tenant_id", "created_at", "id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    collection_id: Mapped[str] = mapped_column(ForeignKey("collections.id"))
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), unique=True)
    parameters: Mapped[dict[str, Any]]
    num_documents: Mapped[int] = mapped_column(default=0)
    num_done: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    finished_at: Mapped[datetime | None]


class ExtractionRow(Base):
    """One document's row. `cells` by column: value, citations, whether it holds; `trail` is what was
    generated, checked and repaired on the way."""

    __tablename__ = "extraction_rows"

    extraction_id: Mapped[str] = mapped_column(
        ForeignKey("extractions.id", ondelete="CASCADE"), primary_key=True
    )
    document_id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    position: Mapped[int]
    document_name: Mapped[str]
    outcome: Mapped[str | None]
    cells: Mapped[dict[str, Any]] = mapped_column(default=dict)
    trail: Mapped[list[dict[str, Any]]] = mapped_column(default=list)
    finished_at: Mapped[datetime | None]
