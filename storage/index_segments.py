"""FAISS files that readers may use."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from core.ids import CollectionId, SegmentId, TenantId
from storage.models import IndexSegment


class IndexSegmentRepository:
    """A tenant's FAISS segments, as rows."""

    def __init__(self, session: Session, tenant_id: TenantId) -> None:
        self._session = session
        self._tenant_id = tenant_id

    def list_live(self, collection_id: CollectionId, model_revision: str) -> Sequence[IndexSegment]:
        """Oldest first."""
        return self._session.scalars(
            select(IndexSegment)
            .where(
                IndexSegment.tenant_id == self._tenant_id,
                IndexSegment.collection_id == collection_id,
                IndexSegment.model_revision == model_revision,
            )
            .order_by(IndexSegment.id)
        ).all()

    def list_ids(self, collection_id: CollectionId) -> set[SegmentId]:
        """Those of every model revision."""
        rows = self._session.scalars(
            select(IndexSegment.id).where(
                IndexSegment.tenant_id == self._tenant_id, IndexSegment.collection_id == collection_id
            )
        )
        return {SegmentId(segment_id) for segment_id in rows}

    def add(
        self,
        segment_id: SegmentId,
        collection_id: CollectionId,
        *,
        model_revision: str,
        kind: str,
        num_vectors: int,
    ) -> IndexSegment:
        """Make a written file visible."""
        segment = IndexSegment(
            id=segment_id,
            tenant_id=self._tenant_id,
            collection_id=collection_id,
            model_revision=model_revision,
            kind=kind,
            num_vectors=num_vectors,
        )
        self._session.add(segment)
        self._session.flush()
        return segment

    def remove(self, segment_ids: Sequence[SegmentId]) -> int:
        """Make files invisible; the number that were still there."""
        result = self._session.execute(
            delete(IndexSegment).where(
                IndexSegment.tenant_id == self._tenant_id, IndexSegment.id.in_(segment_ids)
            )
        )
        return int(result.rowcount)  # type: ignore[attr-defined]
