"""Writes blocks beside the engine's work, and never makes it wait or fail."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from inference.kv_store.block_store import BlockStore

_PAUSE_SECONDS = 30.0  # after a failed write: a full disk stays full for a while


class BlockWriter:
    """A thread that writes what it is given.

    What exceeds `max_pending_bytes`, or comes while the disk fails, is dropped: the next question
    about the document offers it again.

    Args:
        rank: this process's, of a block's several.
        report: told `written`, `dropped` or `write_failed`, and why.
    """

    def __init__(
        self,
        store: BlockStore,
        *,
        rank: int,
        report: Callable[[str, str], None],
        max_pending_bytes: int = 256 * 1024 * 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._rank = rank
        self._report = report
        self._max_pending_bytes = max_pending_bytes
        self._clock = clock
        self._pending_bytes = 0
        self._paused_until = 0.0
        self._lock = threading.Lock()
        self._queue: queue.Queue[tuple[str, bytearray] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="kv-store-writer", daemon=True)
        self._thread.start()

    def has_room(self, num_bytes: int) -> bool:
        """Whether a block of that size would be taken now."""
        with self._lock:
            return (
                self._pending_bytes + num_bytes <= self._max_pending_bytes
                and self._clock() >= self._paused_until
            )

    def offer(self, key: str, buffer: bytearray) -> bool:
        """Have the block written soon; False where it is dropped. `buffer` is the writer's from now on."""
        if not self.has_room(len(buffer)):
            self._report("dropped", "")
            return False
        with self._lock:
            self._pending_bytes += len(buffer)
        self._queue.put((key, buffer))
        return True

    def close(self, *, timeout_seconds: float = 10.0) -> None:
        """Write what was taken, as far as the time allows."""
        self._queue.put(None)
        self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while (block := self._queue.get()) is not None:
            key, buffer = block
            try:
                if self._clock() < self._paused_until:
                    self._report("dropped", "")
                elif not self._store.has(key):
                    self._store.write(key, buffer, rank=self._rank)
                    self._report("written", "")
            except OSError as error:
                self._paused_until = self._clock() + _PAUSE_SECONDS
                self._report("write_failed", str(error))
            finally:
                with self._lock:
                    self._pending_bytes -= len(buffer)
