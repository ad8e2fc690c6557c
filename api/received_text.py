"""Whether a client that follows an answer has all of its text, though the event store may lose its memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal


class ReceivedText:
    """Follows the `delta` events that one client gets.

    A delta says how many characters were `after` it published before. A client that has fewer has
    missed some: it is told once to discard its text (`restart`), and gets no more of that attempt, since
    a text with a hole in it is worse than none; the last event has the whole answer.

    Args:
        has_gap: what it has is not known any more.
    """

    def __init__(self, *, num_characters: int = 0, has_gap: bool = False) -> None:
        self._num_characters = num_characters
        self._has_gap = has_gap
        self._told = False

    def begin(self) -> None:
        """An attempt begins, from nothing."""
        self._num_characters, self._has_gap, self._told = 0, False, False

    def receive(self, delta: Mapping[str, Any]) -> Literal["pass", "restart", "drop"]:
        """What to do with a delta: pass it on, say `restart` in its place, or nothing at all."""
        if delta.get("after", 0) > self._num_characters:
            self._has_gap = True
        if not self._has_gap:
            self._num_characters = end_of(delta, self._num_characters)
            return "pass"
        answer: Literal["restart", "drop"] = "drop" if self._told else "restart"
        self._told = True
        return answer


def end_of(delta: Mapping[str, Any], num_characters: int) -> int:
    """Characters of the attempt's text up to this delta's end."""
    return int(delta.get("after", num_characters)) + len(delta.get("text", ""))
