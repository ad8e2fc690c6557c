"""Summaries, their documents, and the nodes that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import ColumnElement, func, select, update

from core.clock import utc_now
from core.ids import CollectionId, DocumentId, JobId, SummaryId, new_id
from storage.composites import CompositeRepository
from storage.insertion import insert_if_absent
from storage.models import Collection, Document, Summary, SummaryDocument, SummaryNode
from storage.paging import Page, PageRequest

_AT_ONCE = 500
_IN_LIMIT = 500  # bound variables per statement; SQLite's default limit is higher, old builds' 999


@dataclass(frozen=True, slots=True)
class PagesRead:
    """`share` of the pages that say anything were read."""

    num_pages: int
    num_read: int
    num_empty: int

    @property
    def share(self) -> float:
        telling = self.num_pages - self.num_empty
        return self.num_read / telling if telling else 1.0


class SummaryRepository(CompositeRepository[Summary, SummaryDocument, SummaryId]):
    """Sees only its tenant's summaries; a part for each document."""

    model, part = Summary, SummaryDocument
    noun, plural = "summary", "summaries"

    def create(
        self,
        job_id: JobId,
        collection_id: CollectionId,
        *,
        definition: str,
        parameters: dict[str, Any],
        document_ids: Sequence[DocumentId],
        not_ready: list[dict[str, Any]],
    ) -> Summary:
        """The next version of its definition, with an open row for each document, in the order given."""
        # Held, so that two runs registered at once do not become the same version.
        self._session.execute(
            select(Collection.id)
            .where(Collection.id == collection_id, Collection.tenant_id == self._tenant_id)
            .with_for_update()
        )
        last = self._session.scalar(
            select(func.max(Summary.version)).where(
                Summary.tenant_id == self._tenant_id, Summary.definition == definition
            )
        )
        summary = Summary(
            id=new_id("sum"),
            tenant_id=self._tenant_id,
            collection_id=collection_id,
            job_id=job_id,
            definition=definition,
            version=(last or 0) + 1,
            parameters=parameters,
            not_ready=not_ready,
            num_documents=len(document_ids),
        )
        self._session.add(summary)
        self._session.flush()
        for i in range(0, len(document_ids), _AT_ONCE):
            self._add_documents(summary.id, document_ids[i : i + _AT_ONCE], first=i)
        return summary

    def _add_documents(self, summary_id: str, document_ids: Sequence[DocumentId], *, first: int) -> None:
        found = self._session.execute(
            select(Document.id, Document.name, Document.content_hash, Document.num_pages).where(
                Document.tenant_id == self._tenant_id, Document.id.in_(document_ids)
            )
        )
        known = {row.id: row for row in found}
        rows = [
            {
                "summary_id": summary_id,
                "document_id": document_id,
                "tenant_id": self._tenant_id,
                "position": position,
                "document_name": known[document_id].name,
                "content_hash": known[document_id].content_hash,
                "num_pages": known[document_id].num_pages,
                "num_pages_read": 0,
                "num_pages_empty": 0,
                "statements": [],
                "skipped": [],
                "sentences": b"",
            }
            for position, document_id in enumerate(document_ids, start=first)
        ]
        self._add_parts(rows)

    def find_previous(self, summary: Summary) -> Summary | None:
        """The latest version before it that came to its end, complete."""
        return self._find_latest(summary.definition, Summary.version < summary.version)

    def find_latest(self, definition: str) -> Summary | None:
        """The latest version of a definition that came to its end, complete."""
        return self._find_latest(definition)

    def _find_latest(self, definition: str, *conditions: ColumnElement[bool]) -> Summary | None:
        query = self._wholes(Summary.definition == definition, Summary.outcome == "complete", *conditions)
        found: Summary | None = self._session.scalar(query.order_by(Summary.version.desc()).limit(1))
        return found

    def list_page(
        self,
        page: PageRequest,
        *,
        collection_id: CollectionId | None = None,
        versions_of: Summary | None = None,
    ) -> Page[Summary]:
        versions = () if versions_of is None else (Summary.definition == versions_of.definition,)
        return self._paginate(page, *versions, collection_id=collection_id)

    # ---- documents -----------------------------------------------------------------------

    def find_open(self, summary_id: SummaryId) -> SummaryDocument | None:
        """The first document that is not done yet."""
        return self._first_part(summary_id, SummaryDocument.finished_at.is_(None))

    def coverage(self, summary_ids: Sequence[SummaryId]) -> dict[SummaryId, PagesRead]:
        """Pages of each summary's documents, those read, and those with nothing on them."""
        rows = self._session.execute(
            select(
                SummaryDocument.summary_id,
                func.sum(SummaryDocument.num_pages).label("pages"),
                func.sum(SummaryDocument.num_pages_read).label("read"),
                func.sum(SummaryDocument.num_pages_empty).label("empty"),
            )
            .where(SummaryDocument.summary_id.in_(summary_ids), SummaryDocument.tenant_id == self._tenant_id)
            .group_by(SummaryDocument.summary_id)
        )
        return {
            SummaryId(row.summary_id): PagesRead(int(row.pages), int(row.read), int(row.empty))
            for row in rows
        }

    def count_pages(self, summary_id: SummaryId, *, before: int) -> tuple[int, int]:
        """Pages of the documents before a position, and of all."""
        query = select(func.coalesce(func.sum(SummaryDocument.num_pages), 0)).where(
            SummaryDocument.summary_id == summary_id, SummaryDocument.tenant_id == self._tenant_id
        )
        done = self._session.scalar(query.where(SummaryDocument.position < before))
        return int(done or 0), int(self._session.scalar(query) or 0)

    def finish_document(self, summary_id: SummaryId, document_id: DocumentId, **values: Any) -> None:
        """Write a document's part, and count it."""
        is_it = SummaryDocument.document_id == document_id
        self._set_part(summary_id, is_it, finished_at=utc_now(), **values)
        self._set(summary_id, num_done=Summary.num_done + 1)

    # ---- effects -------------------------------------------------------------------------

    def count_spent(self, summary_id: SummaryId, *, num_tokens: int, cost: Decimal, currency: str) -> Summary:
        """Count a node that was computed, and what it took; the summary as it then is."""
        self._set(
            summary_id,
            num_computed=Summary.num_computed + 1,
            num_tokens=Summary.num_tokens + num_tokens,
            cost=Summary.cost + cost,
            **({"currency": currency} if currency else {}),
        )
        return self.get(summary_id)

    def count_nodes(self, summary_id: SummaryId, num_nodes: int) -> None:
        """Count nodes that are done, computed now or before."""
        self._set(summary_id, num_nodes=Summary.num_nodes + num_nodes)

    def complete(self, summary_id: SummaryId, *, outcome: str, result: dict[str, Any], at: datetime) -> None:
        self._set(summary_id, outcome=outcome, result=result, finished_at=at)

    # ---- nodes ---------------------------------------------------------------------------

    def find_nodes(self, keys: Sequence[str]) -> dict[str, SummaryNode]:
        """Those that exist, by key."""
        found: dict[str, SummaryNode] = {}
        for i in range(0, len(keys), _IN_LIMIT):
            rows = self._session.scalars(
                select(SummaryNode).where(
                    SummaryNode.tenant_id == self._tenant_id,
                    SummaryNode.key.in_(keys[i : i + _IN_LIMIT]),
                )
            )
            found |= {row.key: row for row in rows}
        return found

    def touch_nodes(self, keys: Sequence[str], *, at: datetime) -> None:
        """They are wanted, and so kept."""
        keys = sorted(keys)  # so that two who touch the same do so in one order
        for i in range(0, len(keys), _IN_LIMIT):
            self._session.execute(
                update(SummaryNode)
                .where(SummaryNode.tenant_id == self._tenant_id, SummaryNode.key.in_(keys[i : i + _IN_LIMIT]))
                .values(used_at=at)
            )

    def add_node(self, key: str, statements: list[dict[str, Any]], vectors: bytes) -> bool:
        """Keep a node; False where another run has kept it meanwhile."""
        row = {
            "tenant_id": self._tenant_id,
            "key": key,
            "statements": statements,
            "vectors": vectors,
            "created_at": utc_now(),
            "used_at": utc_now(),
        }
        return insert_if_absent(self._session, SummaryNode, row) == 1
