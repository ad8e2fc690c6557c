"""Merging a collection's small index segments, as a job of its own in the background."""

from __future__ import annotations

import structlog
from sqlalchemy.orm import Session

from core.errors import LongleafError
from core.ids import CollectionId
from retrieval.compaction import MIN_MERGE
from retrieval.maintenance import IndexMaintenance
from storage.database import Database
from storage.documents import IndexSegmentRepository
from storage.job_run import JobRun, RunOutcome
from storage.jobs import ClaimedJob, JobRepository

log = structlog.get_logger()

COMPACT_KIND = "compact"


def request_compaction(
    session: Session, job: ClaimedJob, collection_id: CollectionId, *, model_revision: str, max_attempts: int
) -> None:
    """Queue a compaction where the collection has segments enough to merge and none is queued yet."""
    segments = IndexSegmentRepository(session, job.tenant_id).list_live(collection_id, model_revision)
    jobs = JobRepository(session, job.tenant_id)
    if len(segments) < MIN_MERGE or jobs.has_queued(COMPACT_KIND, collection_id):
        return
    jobs.create(
        COMPACT_KIND,
        queue="batch",
        payload={},
        collection_id=collection_id,
        key_id=job.key_id,
        max_attempts=max_attempts,
    )


class CompactionPipeline:
    """Runs jobs of kind `compact`. Merging computes no vector, so it costs the tenant nothing."""

    def __init__(self, database: Database, maintenance: IndexMaintenance) -> None:
        self._database = database
        self._maintenance = maintenance

    def run(self, run: JobRun) -> RunOutcome:
        collection_id = run.job.collection_id
        if collection_id is not None:
            merged = self._maintenance.compact(run.job.tenant_id, collection_id)
            if merged is not None:
                log.info("segments.merged", collection_id=collection_id, num_vectors=merged.num_vectors)
        with self._database.write() as session:
            run.succeed(session)
        return "done"

    def abandon(self, job: ClaimedJob, error: LongleafError) -> None:
        """Nothing to close: the segments that were there are still there."""
