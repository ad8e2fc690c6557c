"""`python -m workers.relay`: sends the outbox to Celery, begins what schedules are due, takes up what dead
workers held, tidies up.

Any number may run: messages are locked while they are sent, and sending one twice is harmless.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from datetime import datetime, timedelta

import redis
import structlog
from celery import Celery
from sqlalchemy.orm import Session

from accounting.rollups import find_differences, mend_rollups, roll_up
from bootstrap.api_services import ApiServices, build_api_services
from bootstrap.engine_sampling import EngineSampler, sampled_engines
from bootstrap.schedulable_actions import build_schedule_runner
from core.clock import utc_now
from core.ids import JobId, TenantId
from core.logging import configure_logging
from core.settings import load_settings
from inference.kv_store.block_keys import manifest_name
from inference.kv_store.block_store import manifest_names, purge
from ingest.compaction_requests import PURGE_AFTER, request_compaction
from schedules.scheduler import Scheduler
from storage.answer_traces import forget_traces
from storage.documents import list_purgeable_collections, list_static_documents
from storage.engine_counters import forget_samples
from storage.jobs import JobQueue
from storage.outbox import Outbox
from storage.prewarm_jobs import PromptHeads, request_prewarm
from storage.queues import QUEUES
from storage.retention import (
    forget_deliveries,
    forget_idempotency_keys,
    forget_jobs,
    forget_results,
    forget_summary_nodes,
)
from storage.uploads import UploadedFileRepository
from tenancy.tenants import list_tenant_ids
from workers.celery_app import create_celery
from workers.dispatch import LOOK_AGAIN_SECONDS, Dispatcher
from workers.engine_starts import EngineStarts
from workers.execution import FINISHED_EVENT

log = structlog.get_logger()

UNHEARD_AFTER_SECONDS = 10.0
TIDY_SECONDS = 900.0
SAMPLES_KEPT = timedelta(days=400)
"""The ledger can be held against the engines' counters for so long."""

OVERDUE_GRACE = timedelta(seconds=30)
"""A worker ends what it runs at the deadline itself, and knows best what was burned; after so long it
is taken not to look."""
BLOB_GRACE = timedelta(hours=24)
"""An upload's files are stored before its rows are written, so a young file may have none yet."""
WATCH_FOR_LATE_LINES = timedelta(days=3)


class Relay:
    """Outbox to broker, and broken leases back to the outbox."""

    def __init__(self, services: ApiServices, celery: Celery) -> None:
        self._services = services
        self._settings = services.settings.worker
        self._dispatcher = Dispatcher(
            services.database,
            services.events,
            celery,
            max_background=self._settings.background_questions,
        )
        self._swept_at = -math.inf

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set; every fault is logged and outlived."""
        # In threads of their own: a look through all files must keep no question waiting.
        tidier = threading.Thread(target=self._tidy_until, args=(stop,), name="tidy", daemon=True)
        tidier.start()
        scheduler = Scheduler(self._services.database, build_schedule_runner(self._services.settings))
        schedules = threading.Thread(target=scheduler.run, args=(stop,), name="schedules", daemon=True)
        schedules.start()
        if self._services.settings.prewarm.enabled:
            threading.Thread(
                target=self._watch_engines_until, args=(stop,), name="engines", daemon=True
            ).start()
        threading.Thread(
            target=self._sample_engines_until, args=(stop,), name="counters", daemon=True
        ).start()
        while not stop.is_set():
            try:
                self._wait()
                self.send_due()
                if time.monotonic() - self._swept_at >= self._settings.sweep_seconds:
                    self.sweep()
            except Exception:  # the edge of a process that must live: SQL or Redis come back
                log.exception("relay.fault")
                stop.wait(1.0)
        tidier.join()
        schedules.join()

    def _tidy_until(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                self.tidy()
            except Exception:  # as above
                log.exception("relay.tidy_failed")
            stop.wait(TIDY_SECONDS)

    def _watch_engines_until(self, stop: threading.Event) -> None:
        settings = self._services.settings
        starts = EngineStarts(
            settings.engine_urls, api_key=settings.engine.api_key, client=self._services.events.client
        )
        while not stop.is_set():
            try:
                if starts.new_starts():
                    self.prewarm_all()
            except Exception:  # as above
                log.exception("relay.watch_failed")
            stop.wait(settings.prewarm.watch_seconds)
        starts.close()

    def _sample_engines_until(self, stop: threading.Event) -> None:
        sampler = EngineSampler(self._services.database, sampled_engines(self._services.settings))
        while not stop.is_set():
            try:
                sampler.sample()
            except Exception:  # as above
                log.exception("relay.sampling_failed")
            stop.wait(self._settings.engine_sample_seconds)

    def prewarm_all(self) -> None:
        """Have computed again what the caches of engines that started no longer hold."""
        since = utc_now() - timedelta(seconds=self._services.settings.ask.whole_lookback_seconds)
        with self._services.database.write() as session:
            for tenant_id in list_tenant_ids(session):
                weights = PromptHeads(session, tenant_id).weigh_collections(since=since)
                # The collection asked most comes first.
                for collection_id in sorted(weights, key=lambda name: -weights[name]):
                    request_prewarm(
                        session,
                        tenant_id,
                        collection_id,
                        reason="engine_start",
                        max_attempts=self._settings.max_attempts,
                    )

    def _wait(self) -> None:
        if self._dispatcher.holds_back:
            self._services.events.wait_for_wake(LOOK_AGAIN_SECONDS)
            return
        with self._services.database.read() as session:
            due_at = Outbox(session).next_due_at()
        timeout = self._settings.sweep_seconds
        if due_at is not None:
            timeout = min(timeout, (due_at - utc_now()).total_seconds())
        if timeout > 0:
            # Redis before 7 takes less than a millisecond for "as long as it may be".
            self._services.events.wait_for_wake(max(timeout, 0.01))

    def send_due(self) -> int:
        """Send what is due and what workers can soon take; how many messages."""
        return self._dispatcher.send_due()

    def sweep(self) -> None:
        """Take up jobs of dead workers; announce again what the broker has lost."""
        self._swept_at = time.monotonic()
        with self._services.database.write() as session:
            queue = JobQueue(session)
            ended = [*queue.take_up_expired(), *queue.end_overdue(running_before=utc_now() - OVERDUE_GRACE)]
        for job in ended:
            log.warning("job.ended", job_id=job.id, status=job.status, code=job.error_code)
            self._services.events.publish(JobId(job.id), FINISHED_EVENT, {"status": job.status})
        self._dispatcher.look_for_next()
        self._announce_lost()
        with self._services.database.write() as session:
            Outbox(session).forget_heard()

    def tidy(self) -> None:
        """Free what deleted documents hold: index entries and pages by a job, files here. Sum the ledger."""
        with self._services.database.write() as session:
            found = list_purgeable_collections(session, deleted_before=utc_now() - PURGE_AFTER)
            for tenant_id, collection_id in found:
                request_compaction(
                    session, tenant_id, collection_id, max_attempts=self._settings.max_attempts
                )
            tenants = list_tenant_ids(session)
            forget_samples(session, before=utc_now() - SAMPLES_KEPT)
            self._forget(session)
            if (days := self._services.settings.ask.trace_days) is not None:
                forget_traces(session, before=utc_now() - timedelta(days=days))
        for tenant_id in tenants:
            self._remove_unwanted_blobs(tenant_id, before=utc_now() - BLOB_GRACE)
            self._sum_ledger(tenant_id)
        self._remove_unwanted_context()

    def _sum_ledger(self, tenant_id: TenantId) -> None:
        database, now = self._services.database, utc_now()
        roll_up(database, tenant_id, now=now)
        with database.read() as session:
            late = find_differences(session, tenant_id, since=now - WATCH_FOR_LATE_LINES)
        if late:
            with database.write() as session:
                mend_rollups(session, tenant_id, since=late[0])
            log.warning("ledger.late_lines", tenant_id=tenant_id, days=[f"{day:%Y-%m-%d}" for day in late])

    def _forget(self, session: Session) -> None:
        settings, now = self._services.settings.retention, utc_now()
        forget_idempotency_keys(session, before=now - timedelta(hours=settings.idempotency_hours))
        if settings.summary_node_days is not None:
            forget_summary_nodes(session, before=now - timedelta(days=settings.summary_node_days))
        if settings.result_days is not None:
            forget_results(session, before=now - timedelta(days=settings.result_days))
        if settings.job_days is not None:
            forget_deliveries(session, before=now - timedelta(days=settings.job_days))
            forget_jobs(session, before=now - timedelta(days=settings.job_days))

    def _remove_unwanted_context(self) -> None:
        """Computed context of documents that are deleted, or no longer static."""
        folder = self._services.settings.kv_store_dir
        # Listed before the rows are read: what is marked meanwhile is not among these.
        listed = manifest_names(folder)
        with self._services.database.read() as session:
            wanted = {manifest_name(*each) for each in list_static_documents(session)}
        removed = purge(folder, listed - wanted)
        if removed:
            log.info("kv_store.purged", num_files=removed)

    def _remove_unwanted_blobs(self, tenant_id: TenantId, *, before: datetime) -> None:
        blobs = self._services.blobs
        blobs.remove_partial(tenant_id, before=before)
        with self._services.database.read() as session:
            wanted = UploadedFileRepository(session, tenant_id).wanted_hashes()
        # One that is uploaded again meanwhile is young again, and stays.
        removed = [
            content_hash
            for content_hash in blobs.list_hashes(tenant_id)
            if content_hash not in wanted and blobs.remove(tenant_id, content_hash, before=before)
        ]
        if removed:
            log.info("blobs.removed", tenant_id=tenant_id, num_files=len(removed))

    def _announce_lost(self) -> None:
        """A queue that is empty in the broker while SQL has jobs in it has lost them."""
        before = utc_now() - timedelta(seconds=UNHEARD_AFTER_SECONDS)
        lengths = self._services.events.queue_lengths(QUEUES)
        for queue in (queue for queue, length in zip(QUEUES, lengths, strict=True) if not length):
            with self._services.database.write() as session:
                outbox = Outbox(session)
                for job in outbox.list_unheard(queue, before):
                    log.warning("job.announced_again", job_id=job.id, queue=queue)
                    outbox.announce(job)


def main() -> None:
    settings = load_settings()
    configure_logging(settings.log_level, settings.log_format)
    services = build_api_services(settings)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    celery = create_celery(settings)
    try:
        services.events.client.ping()
    except redis.RedisError as error:
        log.warning("relay.no_redis", error=str(error))
    log.info("ready", queue="relay")
    Relay(services, celery).run(stop)
    services.close()


if __name__ == "__main__":
    main()
