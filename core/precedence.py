"""Work that nobody waits for gives way while somebody waits for a first token.

Both share cores and engines, and what has begun is not taken back; so it is asked before each piece of work
that takes long: a batch of an encoder, a request to an engine.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Protocol

from core.scoped_values import holding


class Precedence(Protocol):
    """Where the work of a thread stands beside the work of others."""

    def is_behind(self) -> bool:
        """Whether somebody who goes first is waiting now."""
        ...

    def give_way(self) -> None:
        """Return at once, or when nobody who goes first is waiting any more, or the work is not wanted any more.

        Never called by who holds what another one waits for, such as a transaction or the lead of a prefix.
        """
        ...

    def first_token(self) -> None:
        """Whoever waited for this work reads now. Cheap to call at every token."""
        ...


class _NoPrecedence:
    """Of work that neither gives way nor has others do so."""

    def is_behind(self) -> bool:
        return False

    def give_way(self) -> None: ...

    def first_token(self) -> None: ...


_NONE: Precedence = _NoPrecedence()
_precedence: ContextVar[Precedence] = ContextVar("precedence", default=_NONE)


def current_precedence() -> Precedence:
    """That of the enclosing `preceding`. Threads do not inherit it."""
    return _precedence.get()


def preceding(precedence: Precedence) -> AbstractContextManager[None]:
    """What this thread does in the block has that precedence."""
    return holding(_precedence, precedence)
