from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, LargeBinary
from sqlalchemy.orm import Mapped, mapped_column

from core.clock import utc_now
from storage.models.base import Base


class Summary(Base):
    """One run of a summary. Runs of one collection, filter and parameters share a `definition` and are
    its versions, from 1; the job's status is the run's.

    `outcome`: `complete`, or `capped` where it stopped at the caller's limit. `result` has the text, its
    statements and citations, and warnings; `not_ready` are documents that met the filter and could not be read.
    """

    __tablename__ = "summaries"
    __table_args__ = (
        Index("ix_summaries_listing", "tenant_id", "created_at", "id"),
        Index("ix_summaries_definition", "tenant_id", "definition", "version", unique=True),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    collection_id: Mapped[str] = mapped_column(ForeignKey("collections.id"))
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), unique=True)
    definition: Mapped[str]
    version: Mapped[int]
    parameters: Mapped[dict[str, Any]]
    not_ready: Mapped[list[dict[str, Any]]] = mapped_column(default=list)
    num_documents: Mapped[int]
    num_done: Mapped[int] = mapped_column(default=0)
    num_nodes: Mapped[int] = mapped_column(default=0)
    num_computed: Mapped[int] = mapped_column(default=0)
    num_tokens: Mapped[int] = mapped_column(BigInteger, default=0)
    cost: Mapped[Decimal] = mapped_column(default=Decimal(0))
    currency: Mapped[str] = mapped_column(default="")
    outcome: Mapped[str | None]
    result: Mapped[dict[str, Any]] = mapped_column(default=dict)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    finished_at: Mapped[datetime | None]


class SummaryDocument(Base):
    """A document's part in a summary: what is said of it, and what of it was read.

    `statements` have their quotes by the document's characters. `skipped` are pages and why; `sentences`
    are hashes, eight bytes each, of what it said, where the next run will want to know what is new.
    """

    __tablename__ = "summary_documents"

    summary_id: Mapped[str] = mapped_column(ForeignKey("summaries.id", ondelete="CASCADE"), primary_key=True)
    document_id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    position: Mapped[int]
    document_name: Mapped[str]
    content_hash: Mapped[str]
    node_key: Mapped[str | None]
    statements: Mapped[list[dict[str, Any]]] = mapped_column(default=list)
    num_pages: Mapped[int] = mapped_column(default=0)
    num_pages_read: Mapped[int] = mapped_column(default=0)
    num_pages_empty: Mapped[int] = mapped_column(default=0)
    skipped: Mapped[list[dict[str, Any]]] = mapped_column(default=list)
    sentences: Mapped[bytes] = mapped_column(LargeBinary, default=b"")
    finished_at: Mapped[datetime | None]


class SummaryNode(Base):
    """What a section, or several nodes together, come to: kept under a hash of everything it depends on.

    `statements` say where they are from by offsets in the section, or by the children's own statements, so
    that the node holds wherever the same text stands. `vectors` are theirs, as fp16 bytes. `used_at` is when
    a run last wanted it, to the hour.
    """

    __tablename__ = "summary_nodes"

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    statements: Mapped[list[dict[str, Any]]]
    vectors: Mapped[bytes] = mapped_column(LargeBinary, default=b"")
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    used_at: Mapped[datetime] = mapped_column(default=utc_now, index=True)
