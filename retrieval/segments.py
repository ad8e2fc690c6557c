"""From rows of `index_segments` to what the dense index takes."""

from __future__ import annotations

from sqlalchemy.orm import Session

from core.errors import Conflict
from core.ids import CollectionId, SegmentId, TenantId
from retrieval.compaction import SegmentInfo
from storage.index_segments import IndexSegmentRepository


def list_segments(
    session: Session, tenant_id: TenantId, collection_id: CollectionId, model_revision: str
) -> list[SegmentInfo]:
    """The collection's visible segments for one model revision, oldest first."""
    rows = IndexSegmentRepository(session, tenant_id).list_live(collection_id, model_revision)
    return [SegmentInfo(SegmentId(row.id), row.kind, row.num_vectors) for row in rows]


def swap_segments(
    session: Session,
    tenant_id: TenantId,
    collection_id: CollectionId,
    model_revision: str,
    *,
    old: list[SegmentInfo],
    new: list[SegmentInfo],
) -> None:
    """Make `new` visible in place of `old`.

    Raises:
        Conflict: one of `old` has gone, because another process merged it; roll back.
    """
    repository = IndexSegmentRepository(session, tenant_id)
    if old and repository.remove([segment.id for segment in old]) != len(old):
        raise Conflict(
            f"The index segments of collection {collection_id} have changed meanwhile.",
            remedy="Run it again.",
            collection_id=collection_id,
        )
    for segment in new:
        repository.add(
            segment.id,
            collection_id,
            model_revision=model_revision,
            kind=segment.kind,
            num_vectors=segment.num_vectors,
        )
