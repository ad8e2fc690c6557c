"""Tables wanted of collections, and their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from core.errors import NotFound
from core.ids import CollectionId, DocumentId, ExtractionId, JobId, TenantId, new_id
from storage.models import Document, Extraction, ExtractionRow
from storage.paging import Page, PageRequest, paginate

_INSERT_ROWS = 500
_READ_ROWS = 500


class ExtractionRepository:
    """Sees only its tenant's extractions."""

    def __init__(self, session: Session, tenant_id: TenantId) -> None:
        self._session = session
        self._tenant_id = tenant_id

    def create(
        self,
        job_id: JobId,
        collection_id: CollectionId,
        *,
        parameters: dict[str, Any],
        document_ids: Sequence[DocumentId],
    ) -> Extraction:
        """An extraction with an open row for each document, in the order given."""
        extraction = Extraction(
            id=new_id("ext"),
            tenant_id=self._tenant_id,
            collection_id=collection_id,
            job_id=job_id,
            parameters=parameters,
            num_documents=len(document_ids),
        )
        self._session.add(extraction)
        self._session.flush()
        for i in range(0, len(document_ids), _INSERT_ROWS):
            self._add_rows(extraction.id, document_ids[i : i + _INSERT_ROWS], first=i)
        return extraction

    def _add_rows(self, extraction_id: str, document_ids: Sequence[DocumentId], *, first: int) -> None:
        found = self._session.execute(
            select(Document.id, Document.name).where(
                Document.tenant_id == self._tenant_id, Document.id.in_(document_ids)
            )
        )
        names = {row.id: row.name for row in found}
        rows = [
            {
                "extraction_id": extraction_id,
                "document_id": document_id,
                "tenant_id": self._tenant_id,
                "position": position,
                "document_name": names.get(document_id, document_id),
                "cells": {},
                "trail": [],
            }
            for position, document_id in enumerate(document_ids, start=first)
        ]
        self._session.execute(insert(ExtractionRow), rows)

    def get(self, extraction_id: ExtractionId) -> Extraction:
        """Raises `NotFound` for an unknown or foreign id."""
        found = self._session.scalar(
            select(Extraction).where(Extraction.id == extraction_id, Extraction.tenant_id == self._tenant_id)
        )
        if found is None:
            raise NotFound(
                f"There is no extraction {extraction_id}.",
                remedy="List yours with GET /v1/extractions.",
                extraction_id=extraction_id,
            )
        return found

    def find_by_job(self, job_id: JobId) -> Extraction | None:
        return self._session.scalar(
            select(Extraction).where(Extraction.job_id == job_id, Extraction.tenant_id == self._tenant_id)
        )

    def list_page(self, page: PageRequest, *, collection_id: CollectionId | None = None) -> Page[Extraction]:
        query = select(Extraction).where(Extraction.tenant_id == self._tenant_id)
        if collection_id is not None:
            query = query.where(Extraction.collection_id == collection_id)
        return paginate(self._session, query, Extraction, page)

    def list_rows(
        self, extraction_id: ExtractionId, *, first: int = 0, limit: int = _READ_ROWS
    ) -> Sequence[ExtractionRow]:
        """At most `limit` rows from position `first` on, in order."""
        return self._session.scalars(
            self._rows(extraction_id)
            .where(ExtractionRow.position >= first)
            .order_by(ExtractionRow.position)
            .limit(limit)
        ).all()

    def all_rows(self, extraction_id: ExtractionId) -> Iterator[ExtractionRow]:
        """Every row, in order, some hundreds at a time."""
        first = 0
        while rows := self.list_rows(extraction_id, first=first):
            yield from rows
            first = rows[-1].position + 1

    def find_open(self, extraction_id: ExtractionId) -> ExtractionRow | None:
        """The first row that is not filled yet."""
        query = self._rows(extraction_id).where(ExtractionRow.finished_at.is_(None))
        found: ExtractionRow | None = self._session.scalar(query.order_by(ExtractionRow.position).limit(1))
        return found

    def finish_row(
        self,
        extraction_id: ExtractionId,
        document_id: DocumentId,
        *,
        outcome: str,
        cells: dict[str, Any],
        trail: list[dict[str, Any]],
        at: datetime,
    ) -> Extraction:
        """Write a row, and count it; the extraction as it then is."""
        self._session.execute(
            update(ExtractionRow)
            .where(
                ExtractionRow.extraction_id == extraction_id,
                ExtractionRow.document_id == document_id,
                ExtractionRow.tenant_id == self._tenant_id,
            )
            .values(outcome=outcome, cells=cells, trail=trail, finished_at=at)
        )
        self._set(extraction_id, num_done=Extraction.num_done + 1)
        extraction = self.get(extraction_id)
        self._session.refresh(extraction)
        return extraction

    def complete(self, extraction_id: ExtractionId, *, at: datetime) -> None:
        self._set(extraction_id, finished_at=at)

    def _rows(self, extraction_id: ExtractionId) -> Any:
        return select(ExtractionRow).where(
            ExtractionRow.extraction_id == extraction_id, ExtractionRow.tenant_id == self._tenant_id
        )

    def _set(self, extraction_id: ExtractionId, **values: Any) -> None:
        self._session.execute(
            update(Extraction)
            .where(Extraction.id == extraction_id, Extraction.tenant_id == self._tenant_id)
            .values(**values)
        )
