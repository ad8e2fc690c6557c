"""One engine of several: what is known of its state, and the requests it has from here."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from core.errors import LongleafError
from inference.engine_metrics import EngineCounters
from inference.protocols import EngineInfo, GenerationDelta, GenerationRequest, Generator

REST_SECONDS = 30.0
"""An engine that failed is left alone so long, unless it is seen to be up before."""

_FRESH_SECONDS = 5.0


class EngineClient(Generator, Protocol):
    """A generator that also tells the engine's own counters."""

    def engine_counters(self) -> EngineCounters: ...


class PooledEngine:
    """A member of a pool. Safe to share between threads.

    Args:
        name: in steps, logs and metrics, where its address would say too much.
    """

    def __init__(self, name: str, url: str, client: EngineClient) -> None:
        self.name = name
        self.url = url
        self.client = client
        self.known: EngineInfo | None = None
        self.num_served = 0
        self._lock = threading.Lock()
        self._in_flight = 0
        self._others = 0  # requests of other processes, when it was last looked at
        self._seen_at = float("-inf")
        self._resting_until = 0.0

    @property
    def load(self) -> int:
        """Requests that it runs and keeps waiting: ours now, others' when it was last looked at."""
        with self._lock:
            is_fresh = time.monotonic() - self._seen_at < _FRESH_SECONDS
            return self._in_flight + (self._others if is_fresh else 0)

    @property
    def is_resting(self) -> bool:
        """It has failed lately."""
        return time.monotonic() < self._resting_until

    def rest(self) -> None:
        """It failed: leave it alone for a while."""
        self._resting_until = time.monotonic() + REST_SECONDS

    def look(self) -> None:
        """See whether it is up and what it has to do; never raises."""
        if not self.client.is_healthy():
            self.rest()
            return
        self._resting_until = 0.0
        try:
            counters = self.client.engine_counters()
        except LongleafError:  # not a vLLM, or without metrics: our own count must do
            return
        with self._lock:
            self._others = max(0, counters.num_running + counters.num_waiting - self._in_flight)
            self._seen_at = time.monotonic()

    def has_served(self) -> None:
        """A request had its first token."""
        with self._lock:
            self.num_served += 1

    def info(self) -> EngineInfo:
        """As `Generator.info`."""
        self.known = self.client.info()
        return self.known

    @contextmanager
    def stream(self, request: GenerationRequest) -> Iterator[Iterator[GenerationDelta]]:
        """As `Generator.stream`; counted while it runs."""
        with self._lock:
            self._in_flight += 1
        try:
            with self.client.stream(request) as deltas:
                yield deltas
        finally:
            with self._lock:
                self._in_flight -= 1
