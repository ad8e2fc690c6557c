"""Compaction of a collection's indexes, as a job of its own in the background."""

from __future__ import annotations

from datetime import timedelta

import structlog

from core.clock import utc_now
from core.errors import InvalidInput
from ingest.compaction_requests import PURGE_AFTER, request_compaction
from retrieval.dense_index import GRACE_SECONDS
from retrieval.maintenance import IndexMaintenance
from storage.database import Database
from storage.documents import DocumentRepository
from storage.job_run import JobRun, RunOutcome

log = structlog.get_logger()


class CompactionPipeline:
    """Runs jobs of kind `compact`: merges small segments and takes out what was deleted.

    No vector is computed for it, so it costs the tenant nothing.
    """

    def __init__(self, database: Database, maintenance: IndexMaintenance) -> None:
        self._database = database
        self._maintenance = maintenance

    def run(self, run: JobRun) -> RunOutcome:
        """Indexes first, pages last: as long as these are stored, it will be done again."""
        tenant_id, collection_id = run.job.tenant_id, run.job.collection_id
        if collection_id is None:
            raise InvalidInput(f"Job {run.job.id} names no collection to compact.")
        with self._database.read() as session:
            doomed = DocumentRepository(session, tenant_id).list_purgeable(
                collection_id, deleted_before=utc_now() - PURGE_AFTER
            )
        self._maintenance.forget_documents(collection_id, doomed)
        merged = self._maintenance.compact(tenant_id, collection_id)
        with self._database.write() as session:
            run.succeed(session)
            DocumentRepository(session, tenant_id).delete_pages(doomed)
            if self._maintenance.has_garbage(collection_id):
                # Files that a search may still be reading; they go the next time.
                request_compaction(
                    session,
                    tenant_id,
                    collection_id,
                    max_attempts=run.job.max_attempts,
                    available_at=utc_now() + timedelta(seconds=GRACE_SECONDS),
                )
        log.info(
            "collection.compacted",
            collection_id=collection_id,
            num_merged_vectors=merged.num_vectors if merged else 0,
            num_purged_documents=len(doomed),
        )
        return "done"
