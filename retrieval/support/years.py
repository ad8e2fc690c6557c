"""Of which year a sentence speaks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_YEAR = re.compile(r"(?<!\d)(?:1[5-9]|20)\d\d(?!\d)")

_UNKNOWN = 0.5


def years_in(text: str) -> frozenset[str]:
    """The years from 1500 to 2099 in `text`."""
    return frozenset(_YEAR.findall(text))


def year_conflicts(question: str, heading: str, sentences: Iterable[str]) -> Iterator[float]:
    """For each sentence: 1 if it is about another year than the question, 0.5 if about none that is known.

    A sentence without a year is about the last one before it, in its text or in its heading; 0 where
    the question names no year.
    """
    asked = years_in(question)
    current = frozenset(_YEAR.findall(heading)[-1:])
    for sentence in sentences:
        own = years_in(sentence)
        about = own or current
        current = frozenset(_YEAR.findall(sentence)[-1:]) or current
        if not asked or about & asked:
            yield 0.0
        else:
            yield 1.0 if about else _UNKNOWN
