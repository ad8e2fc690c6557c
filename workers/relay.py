"""`python -m workers.relay`: sends the outbox to Celery and takes up what dead workers held.

Any number may run: messages are locked while they are sent, and sending one twice is harmless.
"""

from __future__ import annotations

import signal
import threading
import time
from datetime import timedelta

import redis
import structlog
from celery import Celery
from sqlalchemy.orm import Session

from bootstrap.api_services import ApiServices, build_api_services
from core.clock import utc_now
from core.ids import JobId, TenantId
from core.logging import configure_logging
from core.settings import load_settings
from ingest.claims import release_documents
from ingest.uploads import INGEST_KIND
from storage.jobs import QUEUES, JobQueue
from storage.models import Job
from storage.outbox import Outbox
from storage.uploads import UploadedFileRepository
from workers.celery_app import TASK_NAME, create_celery
from workers.execution import FINISHED_EVENT

log = structlog.get_logger()

UNHEARD_AFTER_SECONDS = 10.0


class Relay:
    """Outbox to broker, and broken leases back to the outbox."""

    def __init__(self, services: ApiServices, celery: Celery) -> None:
        self._services = services
        self._celery = celery
        self._settings = services.settings.worker
        self._swept_at = 0.0

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set; every fault is logged and outlived."""
        while not stop.is_set():
            try:
                self._wait()
                self.send_due()
                if time.monotonic() - self._swept_at >= self._settings.sweep_seconds:
                    self.sweep()
            except Exception:  # the edge of a process that must live: SQL or Redis come back
                log.exception("relay.fault")
                stop.wait(1.0)

    def _wait(self) -> None:
        with self._services.database.read() as session:
            due_at = Outbox(session).next_due_at()
        timeout = self._settings.sweep_seconds
        if due_at is not None:
            timeout = min(timeout, (due_at - utc_now()).total_seconds())
        if timeout > 0:
            self._services.events.wait_for_wake(timeout)

    def send_due(self) -> int:
        """Send every message that is due; how many."""
        with self._services.database.write() as session:
            messages = Outbox(session).claim_unsent(utc_now())
            for message in messages:
                self._celery.send_task(
                    TASK_NAME, args=[message.job_id], queue=message.queue, task_id=message.id
                )
                message.sent_at = utc_now()
        return len(messages)

    def sweep(self) -> None:
        """Take up jobs of dead workers; announce again what the broker has lost."""
        self._swept_at = time.monotonic()
        with self._services.database.write() as session:
            failed = JobQueue(session).take_up_expired()
            for job in failed:
                _close(session, job)
        for job in failed:
            log.error("job.parked", job_id=job.id, attempts=job.attempt)
            self._services.events.publish(JobId(job.id), FINISHED_EVENT, {"status": "failed"})
        self._announce_lost()

    def _announce_lost(self) -> None:
        """A queue that is empty in the broker while SQL has jobs in it has lost them."""
        before = utc_now() - timedelta(seconds=UNHEARD_AFTER_SECONDS)
        for queue in QUEUES:
            if self._services.events.queue_length(queue) > 0:
                continue
            with self._services.database.write() as session:
                outbox = Outbox(session)
                for job in outbox.list_unheard(queue, before):
                    log.warning("job.announced_again", job_id=job.id, queue=queue)
                    outbox.announce(job)


def _close(session: Session, job: Job) -> None:
    """What the dead worker can no longer do for a job that failed for good."""
    if job.kind != INGEST_KIND:
        return
    tenant_id, job_id, detail = TenantId(job.tenant_id), JobId(job.id), job.error_detail or ""
    UploadedFileRepository(session, tenant_id).fail_open(job_id, code="worker_lost", detail=detail)
    release_documents(session, tenant_id, job_id, code="worker_lost", detail=detail)


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
