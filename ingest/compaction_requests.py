"""Asking for a collection's indexes to be compacted. Loads neither an index nor a model."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from core.ids import CollectionId, KeyId, TenantId
from retrieval.compaction import MIN_MERGE
from storage.index_segments import IndexSegmentRepository
from storage.jobs import ClaimedJob, JobRepository

COMPACT_KIND = "compact"

PURGE_AFTER = timedelta(minutes=15)
"""How long a deleted document's pages stay: longer than an answer takes that has already found it."""


def request_compaction(
    session: Session,
    tenant_id: TenantId,
    collection_id: CollectionId,
    *,
    key_id: KeyId | None = None,
    max_attempts: int,
    available_at: datetime | None = None,
) -> None:
    """Queue a compaction unless one is queued."""
    jobs = JobRepository(session, tenant_id)
    if jobs.has_queued(COMPACT_KIND, collection_id):
        return
    jobs.create(
        COMPACT_KIND,
        queue="batch",
        payload={},
        collection_id=collection_id,
        key_id=key_id,
        max_attempts=max_attempts,
        available_at=available_at,
    )


def request_merge(
    session: Session, job: ClaimedJob, collection_id: CollectionId, *, model_revision: str, max_attempts: int
) -> None:
    """Queue a compaction where the ingest `job` left the collection with segments enough to merge."""
    segments = IndexSegmentRepository(session, job.tenant_id).list_live(collection_id, model_revision)
    if len(segments) >= MIN_MERGE:
        request_compaction(
            session, job.tenant_id, collection_id, key_id=job.key_id, max_attempts=max_attempts
        )
