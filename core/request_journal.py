"""What requests to engines consume, told while they run: who dies in the middle cannot tell it afterwards."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Protocol

from core.scoped_values import holding
from core.usage import TokenUsage


class JournalEntry(Protocol):
    """One request. Its thread alone calls it."""

    def used(self, usage: TokenUsage) -> None:
        """All that the request has consumed so far. The first time it is written down before this returns."""
        ...

    def close(self) -> None:
        """The request has ended, in whatever way; what it has consumed is final."""
        ...


class RequestJournal(Protocol):
    """Keeps what requests have consumed until their work has put it on the ledger."""

    def open(self, model: str, model_revision: str) -> JournalEntry: ...


class _NoJournal:
    """Of work that nobody else would take up, and so nobody would settle."""

    def open(self, model: str, model_revision: str) -> JournalEntry:
        return self

    def used(self, usage: TokenUsage) -> None: ...

    def close(self) -> None: ...


_NOTHING_KEPT: RequestJournal = _NoJournal()
_journal: ContextVar[RequestJournal] = ContextVar("request_journal", default=_NOTHING_KEPT)


def current_journal() -> RequestJournal:
    """That of the enclosing `journaling`; one that keeps nothing elsewhere. Threads do not inherit it."""
    return _journal.get()


def journaling(journal: RequestJournal) -> AbstractContextManager[None]:
    """Every request to an engine that this thread makes in the block is told to `journal`."""
    return holding(_journal, journal)
