"""What the API counts, in Prometheus' words. Each process has its own; scrape each of them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from datetime import timedelta

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from accounting.reconciliation import ModelReconciliation, reconcile
from core.clock import utc_now
from generation.prewarm.report import PrewarmReport, measure_prewarm
from storage.database import Database
from storage.listings import count_open_jobs
from storage.queues import QUEUES

log = structlog.get_logger()

_PREWARM_SECONDS = 60.0
_RECONCILED_SECONDS = 60.0
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class ApiMetrics:
    """Requests by route, method and status, their duration, and the depth of the queues."""

    def __init__(self, database: Database) -> None:
        self._registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self._requests = Counter(
            "longleaf_http_requests", "Requests answered.", labels, registry=self._registry
        )
        self._seconds = Histogram(
            "longleaf_http_request_seconds",
            "From the request's first byte to the response's last.",
            ("method", "route"),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._active = Gauge(
            "longleaf_http_requests_active", "Requests being answered.", registry=self._registry
        )
        self._registry.register(_QueueDepth(database))
        self._registry.register(_Prewarm(database))
        self._registry.register(_LedgerDifference(database))

    def begin(self) -> None:
        self._active.inc()

    def end(self, *, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request; `route` is the template, never a path with ids in it."""
        self._active.dec()
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def render(self) -> tuple[bytes, str]:
        """The page for a scrape, and its media type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST


class _QueueDepth(Collector):
    """Asks SQL at each scrape, so that every process says the same."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Said without asking SQL: the tables may not be there yet when it is registered."""
        yield _family()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = _family()
        try:
            with self._database.read() as session:
                counts = count_open_jobs(session)
        except SQLAlchemyError as error:
            # A scrape goes on without it: no sample says "unknown", a zero would say "empty".
            log.warning("metrics.queue_depth_failed", error=type(error).__name__)
            return
        for queue in QUEUES:
            for status in ("queued", "running"):
                family.add_metric([queue, status], counts.get((queue, status), 0))
        yield family


class _Prewarm(Collector):
    """What prewarming was good for in the last day, by the stored jobs and answers."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known = PrewarmReport()
        self._asked_at = -math.inf

    def describe(self) -> Iterator[GaugeMetricFamily]:
        yield from _prewarm_families()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        heads, tokens = _prewarm_families()
        try:
            report = self._report()
        except SQLAlchemyError as error:
            log.warning("metrics.prewarm_failed", error=type(error).__name__)
            return
        heads.add_metric(["computed"], report.num_heads)
        heads.add_metric(["found"], report.num_found)
        tokens.add_metric(["computed"], report.computed_tokens)
        tokens.add_metric(["found"], report.found_tokens)
        yield from (heads, tokens)

    def _report(self) -> PrewarmReport:
        """Read once a minute: it looks through a day."""
        if time.monotonic() - self._asked_at > _PREWARM_SECONDS:
            with self._database.read() as session:
                self._known = measure_prewarm(session, since=utc_now() - timedelta(days=1))
            self._asked_at = time.monotonic()
        return self._known


class _LedgerDifference(Collector):
    """What of the engines' own counts of the last day the ledger cannot explain."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: list[ModelReconciliation] = []
        self._asked_at = -math.inf

    def describe(self) -> Iterator[GaugeMetricFamily]:
        yield from _difference_families()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        tokens, share = _difference_families()
        try:
            found = self._reconciled()
        except SQLAlchemyError as error:
            log.warning("metrics.reconciliation_failed", error=type(error).__name__)
            return
        for model in found:
            for name, compared in model.counters.items():
                tokens.add_metric([model.model, name], compared.unexplained)
                share.add_metric([model.model, name], compared.share)
        yield from (tokens, share)

    def _reconciled(self) -> list[ModelReconciliation]:
        """Looked at once a minute: it sums a day."""
        if time.monotonic() - self._asked_at > _RECONCILED_SECONDS:
            now = utc_now()
            with self._database.read() as session:
                self._known = reconcile(session, start=now - timedelta(days=1), end=now)
            self._asked_at = time.monotonic()
        return self._known


def _difference_families() -> tuple[GaugeMetricFamily, GaugeMetricFamily]:
    labels = ["model", "counter"]
    return (
        GaugeMetricFamily(
            "longleaf_ledger_unexplained_tokens",
            "Tokens that the ledger has and the engines have not (or, negative, the other way round).",
            labels=labels,
        ),
        GaugeMetricFamily(
            "longleaf_ledger_difference_share",
            "The same, as a share of what the engines counted.",
            labels=labels,
        ),
    )


def _prewarm_families() -> tuple[GaugeMetricFamily, GaugeMetricFamily]:
    return (
        GaugeMetricFamily(
            "longleaf_prewarm_heads",
            "Beginnings of prompts computed beforehand in the last day, and those that a question found.",
            labels=["state"],
        ),
        GaugeMetricFamily("longleaf_prewarm_tokens", "Their tokens.", labels=["state"]),
    )


def _family() -> GaugeMetricFamily:
    return GaugeMetricFamily("longleaf_jobs", "Open jobs of all tenants.", labels=["queue", "status"])
