"""What one run of a summary says and another does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

SAME_SHARE = 0.75
"""Statements that share so much of their text are one, changed."""


def compare_statements(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """`added`, `removed`, `changed` (before, after) and `num_same`, in the order of the text.

    Args:
        before: statements as `Summary.result` has them.
    """
    old, new = [each["text"] for each in before], [each["text"] for each in after]
    added = [text for text in dict.fromkeys(new) if text not in old]
    removed = [text for text in dict.fromkeys(old) if text not in new]
    changed = []
    for text in list(added):
        likest = max(removed, key=lambda other: _likeness(other, text), default=None)
        if likest is not None and _likeness(likest, text) >= SAME_SHARE:
            changed.append({"before": likest, "after": text})
            added.remove(text)
            removed.remove(likest)
    num_same = sum(text in old for text in new)
    return {"added": added, "removed": removed, "changed": changed, "num_same": num_same}


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other, autojunk=False).ratio()
