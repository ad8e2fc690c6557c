"""`python -m workers.main QUEUE`: a worker of one queue. Models it needs are loaded before the first task."""

from __future__ import annotations

import argparse
import gc
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import structlog
from celery import Celery
from celery.signals import worker_ready

from bootstrap.delivery_services import DeliveryServices, build_delivery_services
from core.ids import JobId
from core.logging import configure_logging
from core.settings import Settings, load_settings
from storage.queues import QUEUES
from storage.waiting_people import WaitingPeople
from workers.celery_app import TASK_NAME, create_celery
from workers.execution import JobExecutor
from workers.precedence import JobPrecedence

if TYPE_CHECKING:
    from bootstrap.worker_services import WorkerServices

log = structlog.get_logger()

LIGHT_QUEUES = frozenset({"delivery"})
"""What needs no model."""


def register_tasks(celery: Celery, executor: JobExecutor) -> None:
    """The one task there is: run the job with this id."""

    @celery.task(name=TASK_NAME)  # type: ignore[untyped-decorator]
    def run_job(job_id: str) -> None:
        executor.execute(JobId(job_id))


def num_threads(queue: str, settings: Settings) -> int:
    """Questions wait for the engine and deliveries for their receivers, so several share a process;
    ingest uses all cores alone."""
    waiting = {"interactive": settings.worker.interactive_threads, "delivery": settings.webhooks.threads}
    return waiting.get(queue, 1)


def build_services(queues: Sequence[str], settings: Settings) -> WorkerServices | DeliveryServices:
    """What these queues take: models only where one of them needs them."""
    if LIGHT_QUEUES.issuperset(queues):
        return build_delivery_services(settings)
    # Here, so that a process without models does not load their libraries either.
    from bootstrap.worker_services import build_worker_services

    return build_worker_services(settings)


def create_executor(services: WorkerServices | DeliveryServices) -> JobExecutor:
    settings = services.settings.worker
    people = WaitingPeople(services.events.client)
    return JobExecutor(
        services.database,
        services.events,
        services.handlers,
        settings,
        precedence=JobPrecedence(people, max_seconds=settings.give_way_seconds),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Run a Longleaf worker.")
    parser.add_argument("queue", choices=QUEUES, nargs="+", help="queues to work on")
    queues: list[str] = parser.parse_args().queue
    settings = load_settings()
    configure_logging(settings.log_level, settings.log_format)
    services = build_services(queues, settings)
    celery = create_celery(settings)
    register_tasks(celery, create_executor(services))

    @worker_ready.connect(weak=False)  # type: ignore[untyped-decorator]
    def _say_ready(**_: object) -> None:
        log.info("ready", queue=",".join(queues))

    # What was loaded stays: the collector need not look at it again while somebody waits.
    gc.collect()
    gc.freeze()
    worker = celery.Worker(
        queues=queues,
        # Threads: a model is loaded once per process, and is never carried through a fork.
        pool="threads",
        concurrency=max(num_threads(queue, settings) for queue in queues),
        loglevel=logging.WARNING,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        optimization="fair",
    )
    worker.start()
    services.close()
    raise SystemExit(worker.exitcode)


if __name__ == "__main__":
    main()
