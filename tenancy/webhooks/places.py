"""How many deliveries to one receiver are under way at once, so that a slow one leaves threads to others."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

_WAIT_SECONDS = 1.0


class Places:
    def __init__(self, per_receiver: int) -> None:
        self._per_receiver = per_receiver
        self._taken: Counter[str] = Counter()
        self._changed = threading.Condition()

    @contextmanager
    def take(self, receiver: str) -> Iterator[bool]:
        """Hold a place until the block ends; False where none becomes free within a second."""
        with self._changed:
            is_free = self._changed.wait_for(
                lambda: self._taken[receiver] < self._per_receiver, timeout=_WAIT_SECONDS
            )
            self._taken[receiver] += is_free
        try:
            yield is_free
        finally:
            with self._changed:
                self._taken[receiver] -= is_free
                self._taken += Counter()  # forgets who has none
                self._changed.notify_all()
