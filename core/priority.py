"""How urgent the work of the running thread is, for whoever queues it behind other work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

INTERACTIVE = 0
"""Somebody waits."""

BACKGROUND = 10
"""Evaluations, extractions, summaries: done when nobody waits."""

_priority: ContextVar[int] = ContextVar("priority", default=INTERACTIVE)


def current_priority() -> int:
    """Lower runs first; `INTERACTIVE` where nothing else was said. Threads do not inherit it."""
    return _priority.get()


@contextmanager
def working_at(priority: int) -> Iterator[None]:
    """Everything that this thread does in the block has the priority."""
    token = _priority.set(priority)
    try:
        yield
    finally:
        _priority.reset(token)
