"""ROUGE-L: how much of the longest common subsequence two texts share, by words, or characters of Chinese."""

from __future__ import annotations

import re
from collections.abc import Sequence

from core.language import is_chinese

_WORD = re.compile(r"[a-z0-9]+")
_CHARACTER = re.compile(r"[\u3400-\u9fff]|[a-z0-9]+")


def rouge_l(text: str, references: Sequence[str]) -> float:
    """F1 against the reference that it is most like, from 0 to 1."""
    return max((_f1(units_of(text, like=one), units_of(one, like=one)) for one in references), default=0.0)


def units_of(text: str, *, like: str) -> list[str]:
    """Lower-case words; where the reference is Chinese, each of its characters is one."""
    return (_CHARACTER if is_chinese(like) else _WORD).findall(text.lower())


def _f1(found: Sequence[str], wanted: Sequence[str]) -> float:
    if not found or not wanted:
        return 0.0
    common = _common_length(found, wanted)
    return 2 * common / (len(found) + len(wanted))


def _common_length(one: Sequence[str], other: Sequence[str]) -> int:
    """By bits: each row of the table is one integer (Hyyrö 2004)."""
    places: dict[str, int] = {}
    for i, unit in enumerate(one):
        places[unit] = places.get(unit, 0) | 1 << i
    full = (1 << len(one)) - 1
    row = full
    for unit in other:
        matches = row & places.get(unit, 0)
        row = (row + matches | row - matches) & full
    return (~row & full).bit_count()
