"""How loaded the engine is, looked at beside a request and never in its way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import structlog

from core.errors import LongleafError
from inference.engine_metrics import EngineCounters

log = structlog.get_logger()

MIN_INTERVAL_SECONDS = 1.0
"""Reading its metrics costs vLLM's server some 10 ms, so it is asked no more often than this."""


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """The engine at one moment. `kv_cache_usage` is the share of KV space in use, from 0 to 1.

    `num_preemptions` are those since the look before: requests that lost their KV space to others
    and were computed again. `measured_at` is of `time.monotonic`.
    """

    kv_cache_usage: float | None
    kv_cache_tokens: int | None
    block_size: int | None
    num_running: int
    num_waiting: int
    num_preemptions: int
    measured_at: float


class EngineLoadSampler:
    """Reads the engine's counters in a thread of its own. Safe to share between threads.

    Args:
        read: asks the engine; raises a `LongleafError` where it has no counters.
    """

    def __init__(
        self, read: Callable[[], EngineCounters], *, min_interval_seconds: float = MIN_INTERVAL_SECONDS
    ) -> None:
        self._read = read
        self._min_interval_seconds = min_interval_seconds
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="engine-load")
        self._lock = threading.Lock()
        self._running: Future[None] | None = None
        self._preemptions: int | None = None
        self._latest: EngineLoad | None = None

    def request(self) -> None:
        """Have the engine looked at soon, unless that was done just now; returns at once."""
        with self._lock:
            is_running = self._running is not None and not self._running.done()
            if not is_running and not self._is_fresh():
                self._running = self._threads.submit(self._look)

    def latest(self) -> EngineLoad | None:
        """What was seen last, if ever."""
        return self._latest

    def wait(self, timeout_seconds: float) -> EngineLoad | None:
        """What a look that is under way sees, or what was seen last."""
        if self._running is not None:
            self._running.exception(timeout=timeout_seconds)
        return self._latest

    def _is_fresh(self) -> bool:
        latest = self._latest
        return latest is not None and time.monotonic() - latest.measured_at < self._min_interval_seconds

    def _look(self) -> None:
        try:
            counters = self._read()
        except LongleafError as error:
            log.debug("engine.load_unknown", error=str(error))
            return
        before = counters.num_preemptions if self._preemptions is None else self._preemptions
        self._preemptions = counters.num_preemptions
        self._latest = EngineLoad(
            kv_cache_usage=counters.kv_cache_usage,
            kv_cache_tokens=counters.kv_cache_tokens,
            block_size=counters.block_size,
            num_running=counters.num_running,
            num_waiting=counters.num_waiting,
            num_preemptions=max(0, counters.num_preemptions - before),
            measured_at=time.monotonic(),
        )
