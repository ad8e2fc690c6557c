"""What each document's questions have cost, and which context of it was bought for that."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from core.ids import DocumentId
from generation.prefix.pieces import PieceKey

_MAX_DOCUMENTS = 20_000

Context = tuple[PieceKey, ...]


@dataclass(frozen=True, slots=True)
class Account:
    """Of one document: `rent` in uncached passage tokens, the pieces `asked` for, oldest first, and
    the contexts that stand first in prompts, each grown by appending."""

    rent: int = 0
    asked: tuple[PieceKey, ...] = ()
    contexts: tuple[Context, ...] = ()

    @property
    def keys(self) -> tuple[PieceKey, ...]:
        """All pieces it knows of."""
        return tuple(dict.fromkeys((*self.asked, *(key for context in self.contexts for key in context))))


@dataclass(frozen=True, slots=True)
class Posting:
    """What a prompt changes in its document's account.

    Args:
        rent: uncached tokens paid for its passages.
        asked: its passages of the document.
        lost: contexts that the engine holds no more; with the last of them all begins anew.
        replaces: the context that grew into `context`; None where a new one was bought.
    """

    document_id: DocumentId
    rent: int = 0
    asked: tuple[PieceKey, ...] = ()
    lost: tuple[Context, ...] = ()
    context: Context | None = None
    replaces: Context | None = None


def post(account: Account, posting: Posting) -> Account:
    """The account after the posting."""
    contexts = [context for context in account.contexts if context not in posting.lost]
    if posting.lost and not contexts:
        account = Account()
    if posting.context is not None:
        contexts = [context for context in contexts if context != posting.replaces]
        if posting.context not in contexts:
            contexts.append(posting.context)
    return replace(
        account,
        rent=account.rent + posting.rent,
        asked=tuple(dict.fromkeys((*account.asked, *posting.asked))),
        contexts=tuple(contexts),
    )


class Accounts:
    """Accounts of all tenants' documents in a process. Safe to share between threads.

    Args:
        max_idle_seconds: an account without a posting for so long is closed.
        clock: monotonic seconds.
    """

    def __init__(self, *, max_idle_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_idle_seconds = max_idle_seconds
        self._clock = clock
        self._accounts: OrderedDict[tuple[str, DocumentId], tuple[float, Account]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, tenant: str, document_id: DocumentId) -> Account:
        """As it stands; an empty one where nothing was posted lately."""
        with self._lock:
            posted_at, account = self._accounts.get((tenant, document_id), (0.0, Account()))
            return account if self._clock() - posted_at <= self._max_idle_seconds else Account()

    def post(self, tenant: str, posting: Posting) -> None:
        with self._lock:
            key = (tenant, posting.document_id)
            now = self._clock()
            posted_at, account = self._accounts.get(key, (now, Account()))
            if now - posted_at > self._max_idle_seconds:
                account = Account()
            self._accounts[key] = now, post(account, posting)
            self._accounts.move_to_end(key)
            while len(self._accounts) > _MAX_DOCUMENTS:
                self._accounts.popitem(last=False)
