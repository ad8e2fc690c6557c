"""Looks at engines beside the requests, while there are any."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from inference.pooled_engine import PooledEngine

INTERVAL_SECONDS = 1.0
IDLE_SECONDS = 15.0
"""So long after the last request engines are looked at. Asking wakes an idle vLLM's server."""


class EngineWatch:
    """A thread that lives while requests come."""

    def __init__(
        self,
        engines: Sequence[PooledEngine],
        *,
        interval_seconds: float = INTERVAL_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._engines = engines
        self._interval_seconds = interval_seconds
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._is_running = False
        self._wanted_until = 0.0

    def keep_on(self) -> None:
        """A request came: look for a while longer. Returns at once."""
        with self._lock:
            self._wanted_until = time.monotonic() + self._idle_seconds
            if self._is_running:
                return
            self._is_running = True
        threading.Thread(target=self._run, name="engine-watch", daemon=True).start()

    def _run(self) -> None:
        while True:
            for engine in self._engines:
                engine.look()
            with self._lock:
                if time.monotonic() > self._wanted_until:
                    self._is_running = False
                    return
            time.sleep(self._interval_seconds)
