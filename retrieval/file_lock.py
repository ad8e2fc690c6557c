"""One writer at a time, across threads and processes."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from core.errors import Conflict

_POLL_SECONDS = 0.02


@contextmanager
def exclusive_lock(path: Path, *, timeout_seconds: float) -> Iterator[None]:
    """Hold the lock file `path`; the kernel lets go of it when the holder dies.

    Raises:
        Conflict: another holder kept it longer than `timeout_seconds`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _acquire(descriptor, path, time.monotonic() + timeout_seconds)
        yield
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, path: Path, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() >= deadline:
                raise Conflict(
                    f"Another process is still writing {path.parent.name}'s {path.stem} index.",
                    remedy="Try again when it has finished.",
                    path=str(path),
                ) from error
        time.sleep(_POLL_SECONDS)
