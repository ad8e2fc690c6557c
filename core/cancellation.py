"""How long work asks whether it should go on."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar

from core.scoped_values import holding

Checkpoint = Callable[[], None]
"""Returns at once while the work is still wanted.

Raises:
    JobCancelled: the caller asked for it to stop.
    DeadlineExceeded: its time is over.
    LeaseLost: another worker has taken the job up; stop without writing anything.
"""

_LOOK_SECONDS = 0.25


def _always_wanted() -> None:
    """Work that nobody can cancel."""


_checkpoint: ContextVar[Checkpoint] = ContextVar("checkpoint", default=_always_wanted)


def watching(checkpoint: Checkpoint) -> AbstractContextManager[None]:
    """Long waits of this thread in the block ask `checkpoint`, wherever they are. Threads do not inherit it."""
    return holding(_checkpoint, checkpoint)


def look() -> None:
    """Raise what the checkpoint of the enclosing `watching` does, if the work is not wanted any more."""
    _checkpoint.get()()


def wait_watchfully(seconds: float) -> None:
    """Sleep so long, and ask several times a second whether the work is still wanted.

    Raises: what the checkpoint of the enclosing `watching` does.
    """
    until = time.monotonic() + seconds
    while True:
        look()
        remaining = until - time.monotonic()
        if remaining <= 0:
            return
        time.sleep(min(_LOOK_SECONDS, remaining))
