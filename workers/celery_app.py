"""The Celery application. It has no result backend: a job's row says what became of it."""

from __future__ import annotations

from celery import Celery
from kombu import Queue

from core.settings import Settings
from storage.queues import QUEUES

TASK_NAME = "longleaf.run_job"


def create_celery(settings: Settings) -> Celery:
    """An application that delivers at least once and holds nothing back.

    Leases on the job rows recover what a dead worker held within seconds, so the visibility
    timeout of the broker only has to be longer than the longest task.
    """
    app = Celery("longleaf", broker=_kombu_url(settings.resolved_redis_url), set_as_current=False)
    app.conf.update(
        task_queues=[Queue(name) for name in QUEUES],
        task_default_queue="batch",
        task_ignore_result=True,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
        broker_transport_options={"visibility_timeout": 6 * 3600},
    )
    return app


def _kombu_url(url: str) -> str:
    """kombu spells a unix socket `redis+socket://`, redis-py `unix://`."""
    return "redis+socket://" + url.removeprefix("unix://") if url.startswith("unix://") else url
