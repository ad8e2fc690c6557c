"""Values that hold for what one thread does in a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Value = TypeVar("Value")


@contextmanager
def holding(variable: ContextVar[Value], value: Value) -> Iterator[None]:
    """The variable has the value in the block, and afterwards the one that it had. Threads do not inherit it."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
