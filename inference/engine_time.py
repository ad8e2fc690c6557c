"""Whose time an engine's time is, while it works on several requests at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_FRESH_SECONDS = 5.0


class EngineTime:
    """Gives each of n requests 1/n of the time that they share. Safe to share between threads.

    The shares of all requests of this process add up to the time in which there was one, less what
    requests of other processes had of it, as far as the engine's counters tell.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._each = 0.0  # what a request would have had that was there from the beginning
        self._at = clock()
        self._num_ours = 0
        self._num_others = 0
        self._heard_at = float("-inf")

    def begin(self) -> EngineShare:
        """A request was sent."""
        with self._lock:
            self._advance()
            self._num_ours += 1
            return EngineShare(self, self._each)

    def heard(self, num_requests: int) -> None:
        """The engine says how many requests it has, those of other processes too."""
        with self._lock:
            self._advance()
            self._num_others = max(0, num_requests - self._num_ours)
            self._heard_at = self._at

    def elapsed(self) -> float:
        """What each request that is there has had since the beginning."""
        with self._lock:
            self._advance()
            return self._each

    def end(self) -> None:
        """A request is over; `EngineShare.end` calls it."""
        with self._lock:
            self._advance()
            self._num_ours -= 1

    def _advance(self) -> None:
        now = self._clock()
        if self._num_ours:
            is_fresh = self._at - self._heard_at < _FRESH_SECONDS
            self._each += (now - self._at) / (self._num_ours + (self._num_others if is_fresh else 0))
        self._at = now


class EngineShare:
    """One request's part of the engine's time."""

    def __init__(self, engine: EngineTime, begun_at: float) -> None:
        self._engine = engine
        self._begun_at = begun_at

    def seconds(self) -> float:
        """Until now."""
        return self._engine.elapsed() - self._begun_at

    def end(self) -> None:
        self._engine.end()
