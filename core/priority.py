"""How urgent the work of the running thread is, for whoever queues it behind other work."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar

from core.scoped_values import holding

INTERACTIVE = 0
"""Somebody waits."""

BACKGROUND = 10
"""Evaluations, extractions, summaries: done when nobody waits."""

_priority: ContextVar[int] = ContextVar("priority", default=INTERACTIVE)


def current_priority() -> int:
    """Lower runs first; `INTERACTIVE` where nothing else was said. Threads do not inherit it."""
    return _priority.get()


def working_at(priority: int) -> AbstractContextManager[None]:
    """Everything that this thread does in the block has the priority."""
    return holding(_priority, priority)
