"""What other worker processes sent to the same engine, learned from the answers they stored."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from core.clock import utc_now
from core.ids import CollectionId, DocumentId
from generation.attempt import Attempt
from generation.prefix.accounts import Accounts, Posting
from generation.prefix.pieces import PieceKey, is_whole
from generation.prefix.shelf import PieceShelf
from generation.prompt import PassageLayout
from inference.tracked_generator import HoldsPrefixes, salt_of
from storage.database import Database
from storage.recent_prefixes import list_recent_prefixes

_PAUSE_SECONDS = 2.0
_MAX_BEHIND = timedelta(minutes=10)
"""An older prompt has been evicted, or nobody else asks anyway."""
_MAX_LEARNED = 30
_MAX_COLLECTIONS = 10_000


class OtherProcesses:
    """Looks at most every two seconds, for one collection at a time. Safe to share between threads."""

    def __init__(
        self,
        database: Database,
        shelf: PieceShelf,
        accounts: Accounts,
        generator: HoldsPrefixes,
        *,
        own_process: str,
    ) -> None:
        self._database = database
        self._shelf = shelf
        self._accounts = accounts
        self._generator = generator
        self._own_process = own_process
        self._lock = threading.Lock()
        # When each collection was looked at last, by the monotonic clock, and up to which answer.
        self._seen: OrderedDict[CollectionId, tuple[float, datetime]] = OrderedDict()

    def learn(self, attempt: Attempt, layout: PassageLayout) -> None:
        """Take over what the others have paid and sent for the question's collection since last time."""
        since = self._due(attempt.question.collection_id)
        if since is None:
            return
        with self._database.read() as session:
            found = list_recent_prefixes(
                session,
                attempt.tenant_id,
                attempt.question.collection_id,
                finished_after=since,
                excluding_process=self._own_process,
                limit=_MAX_LEARNED,
            )
        for prefix in found:
            self._take_over(attempt, prefix, layout)

    def _due(self, collection_id: CollectionId) -> datetime | None:
        """Since when to look; None if that was done just now."""
        now, at = time.monotonic(), utc_now()
        with self._lock:
            looked, since = self._seen.get(collection_id, (-_PAUSE_SECONDS, at - _MAX_BEHIND))
            if now - looked < _PAUSE_SECONDS:
                return None
            # Answers are stored a moment after the time they bear.
            self._seen[collection_id] = now, at
            self._seen.move_to_end(collection_id)
            while len(self._seen) > _MAX_COLLECTIONS:
                self._seen.popitem(last=False)
            return max(since, at - _MAX_BEHIND)

    def _take_over(self, attempt: Attempt, prefix: Mapping[str, Any], layout: PassageLayout) -> None:
        context = prefix.get("context")
        self._accounts.post(
            attempt.tenant_id,
            Posting(
                DocumentId(prefix["document_id"]),
                rent=int(prefix.get("rent", 0)),
                asked=tuple(map(PieceKey, prefix.get("asked", []))),
                context=tuple(map(PieceKey, context)) if context else None,
            ),
        )
        is_one = len(self._generator.prefix_caches()) == 1  # of several it is not known which served
        if is_one and prefix.get("mode") == attempt.question.mode:  # the same instructions in front
            self._hear_of(attempt, [PieceKey(key) for key in prefix.get("order", [])], layout)

    def _hear_of(self, attempt: Attempt, keys: list[PieceKey], layout: PassageLayout) -> None:
        known = dict(self._shelf.load(attempt.tenant_id, attempt.question.collection_id, keys, layout))
        token_ids = list(layout.opening_ids)
        for number, key in enumerate(keys, start=1):
            piece = known.get(key)
            if piece is None and is_whole(key):
                document_id = DocumentId(key.removeprefix("whole:"))
                piece = self._shelf.whole(attempt.tenant_id, document_id, layout)
            if piece is None:
                break
            token_ids += (*layout.marker(number), *piece.token_ids)
        salt = salt_of(self._generator.info(), attempt.tenant_id)
        self._generator.prefix_caches()[0].heard_of(salt, token_ids)
