"""Tables wanted of collections, and their rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select

from core.ids import CollectionId, DocumentId, ExtractionId, JobId, new_id
from storage.composites import CompositeRepository
from storage.models import Document, Extraction, ExtractionRow

_AT_ONCE = 500


class ExtractionRepository(CompositeRepository[Extraction, ExtractionRow, ExtractionId]):
    """Sees only its tenant's extractions; a row for each document."""

    model, part = Extraction, ExtractionRow
    noun, plural = "extraction", "extractions"

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
        for i in range(0, len(document_ids), _AT_ONCE):
            self._add_rows(extraction.id, document_ids[i : i + _AT_ONCE], first=i)
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
        self._add_parts(rows)

    def find_open(self, extraction_id: ExtractionId) -> ExtractionRow | None:
        """The first row that is not filled yet."""
        return self._first_part(extraction_id, ExtractionRow.finished_at.is_(None))

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
        row = {"outcome": outcome, "cells": cells, "trail": trail, "finished_at": at}
        self._set_part(extraction_id, ExtractionRow.document_id == document_id, **row)
        self._set(extraction_id, num_done=Extraction.num_done + 1)
        return self.get(extraction_id)

    def complete(self, extraction_id: ExtractionId, *, at: datetime) -> None:
        self._set(extraction_id, finished_at=at)
