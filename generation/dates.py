"""Dates as English and Chinese texts write them, in one plain form."""

from __future__ import annotations

import re
import unicodedata
from datetime import date

from generation.numerals import numbers_of

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAME = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>[12]\d{3})"
_HAN_YEAR = r"(?P<year>[12]\d{3}|[〇零一二三四五六七八九]{4})年"
_HAN = r"[一二三四五六七八九十]{1,3}|\d{1,2}"
_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_YEAR}[-/.](?P<month>\d{{1,2}})[-/.](?P<day>\d{{1,2}})(?:[T ].*)?",
        rf"{_YEAR}[-/.](?P<month>\d{{1,2}})",
        rf"{_HAN_YEAR}\s?(?P<month>{_HAN})月\s?(?P<day>{_HAN})[日号]?",
        rf"{_HAN_YEAR}\s?(?P<month>{_HAN})月份?",
        rf"{_HAN_YEAR}",
        rf"{_NAME}\s+{_DAY},?\s+{_YEAR}",
        rf"(?:the\s+)?{_DAY}\s+(?:of\s+)?{_NAME},?\s+{_YEAR}",
        rf"{_NAME},?\s+{_YEAR}",
        rf"{_YEAR}",
    )
)


def plain_date(text: str) -> str | None:
    """`2024-03-05`, `2024-03` or `2024`, as much as `text` says; None for no date, or none there is."""
    text = unicodedata.normalize("NFKC", text).strip()
    for pattern in _PATTERNS:
        match = pattern.fullmatch(text)
        if match is None:
            continue
        found = match.groupdict()
        parts = [_number(found["year"]), _month(found.get("month")), _number(found.get("day"))]
        given = [part for part in parts if part is not None]
        try:
            date(*(given + [1] * (3 - len(given))))
        except ValueError:
            return None
        return "-".join(f"{part:02d}" for part in given)
    return None


def _month(text: str | None) -> int | None:
    if text is not None and text[:3].lower() in _MONTHS:
        return _MONTHS.index(text[:3].lower()) + 1
    return _number(text)


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if text.isdecimal():
        return int(text)
    if len(text) == 1:
        return "〇一二三四五六七八九十".find(text.replace("零", "〇"))
    values = [value for value in numbers_of(f"第{text}").given if value.isdecimal()]
    return int(values[0]) if values else None
