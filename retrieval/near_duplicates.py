"""Texts that say the same: which chunk may be left out because another one stands for it."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

DUPLICATE_SHARE = 0.85
REPEAT_SHARE = 0.5

_SHINGLE_CHARACTERS = 8
_NOT_CONTENT = re.compile(r"[\W_]+")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A text's runs of eight letters or digits, white space and marks aside, and its numbers.

    A few dozen candidates are compared a question, so the sets themselves are kept rather than
    MinHash's estimate of them: comparing two takes microseconds, and nothing is stored.
    """

    shingles: frozenset[str]
    numbers: frozenset[str]


@lru_cache(maxsize=1 << 12)  # the same chunks come back: a hot document is read once
def fingerprint(text: str) -> Fingerprint:
    """The fingerprint of `text`; width and case do not matter."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    content = _NOT_CONTENT.sub("", plain)
    last = max(1, len(content) - _SHINGLE_CHARACTERS + 1)
    shingles = (
        frozenset(content[i : i + _SHINGLE_CHARACTERS] for i in range(last)) if content else frozenset()
    )
    return Fingerprint(shingles, frozenset(_NUMBER.findall(plain)))


def shared_part(text: Fingerprint, others: Fingerprint) -> float:
    """The share of `text` that stands in `others` too, from 0 to 1."""
    return len(text.shingles & others.shingles) / len(text.shingles) if text.shingles else 0.0


def is_duplicate(text: Fingerprint, kept: Fingerprint) -> bool:
    """Whether `text` says nothing that `kept` does not.

    At least 85 % of it stands in the other, and every number: this year's report repeats last
    year's words, and differs where it matters. An identical text is one however short.
    """
    if text.shingles == kept.shingles and text.numbers == kept.numbers:
        return True
    return text.numbers <= kept.numbers and shared_part(text, kept) >= DUPLICATE_SHARE


def repeats(text: Fingerprint, kept: Fingerprint) -> bool:
    """Whether half of `text` stands in `kept`: worth showing only after what is new."""
    return shared_part(text, kept) >= REPEAT_SHARE
