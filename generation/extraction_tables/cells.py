"""One cell of a table: a value, where the document states it, or why there is none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

from generation.citations import Citation, Quote
from generation.dates import plain_date
from generation.extraction_tables.columns import Column
from generation.numerals import numbers_of
from generation.validation.sources import SourceIndex, plain_number, plain_text
from retrieval.short_answer import phrases

Reason = Literal[
    "not_found",  # nothing was found for the column in the document
    "not_stated",  # what was found does not say it
    "not_in_document",  # the model's value does not stand in the document
    "wrong_type",  # what stands there is no value of the column's type
    "needs_model",  # only a model that fills freely can judge it
]

REASONS: dict[str, str] = {
    "not_found": "nothing in the document speaks of it",
    "not_stated": "the document does not say it",
    "not_in_document": "the model's value is not in the document",
    "wrong_type": "what stands there is not of the column's type",
    "needs_model": "only a larger model can judge it",
}

_MINUS = re.compile(r"(?:^|[\s(（:：])[-−]\s?[$€£¥￥]?$")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Phrase:
    """Characters `start` to `end` of the document, which are `text`."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Cell:
    """`phrase` is how the document writes `value`, `quote` the sentence it stands in.

    A truth value and a value of an enum may have a quote that it was judged by and no phrase.
    """

    value: Any = None
    phrase: Phrase | None = None
    quote: Quote | None = None
    reason: Reason | None = None
    rejected: str = ""

    @property
    def is_filled(self) -> bool:
        return self.reason is None


def cell_json(cell: Cell, citations: Sequence[Citation]) -> dict[str, Any]:
    """For `ExtractionRow.cells`; a value whose quote did not survive verification is none."""
    found = next((c for c in citations if cell.quote is not None and c.span == cell.quote.span), None)
    if cell.is_filled and found is None:
        cell = Cell(reason="not_in_document", rejected=str(cell.value))
    if not cell.is_filled:
        return {"value": None, "reason": cell.reason, "detail": REASONS[cell.reason or ""]} | (
            {"rejected": cell.rejected[:200]} if cell.rejected else {}
        )
    phrase = cell.phrase
    return {
        "value": cell.value,
        "text": None if phrase is None else phrase.text,
        "start": None if phrase is None else phrase.start,
        "end": None if phrase is None else phrase.end,
        "citation": None if found is None else found.as_json(),
    }


def typed_value(text: str, column: Column) -> Any:
    """`text` as a value of the column: a number, a plain date, one of the enum; None where it is none."""
    if column.enum:
        return next((each for each in column.enum if plain_text(each) == plain_text(text)), None)
    match column.type:
        case "integer" | "number":
            return _number(text, is_integer=column.type == "integer")
        case "date":
            return plain_date(text)
        case "boolean":
            return {"true": True, "false": False}.get(text.lower())
    return text.strip() or None


def _number(text: str, *, is_integer: bool) -> int | float | None:
    """The one number in `text`; of two nobody could tell which is meant."""
    found = numbers_of(text)
    values = list(found.stated) or sorted(found.given)
    if len(values) != 1:
        return None
    try:
        value = Decimal(values[0])
    except InvalidOperation:
        return None
    if value == value.to_integral_value():
        return int(value)
    return None if is_integer else float(value)


def locate(value: str, quote: Quote, *, is_number: bool = False) -> Phrase | None:
    """Where in the quote the value stands, as the document writes it."""
    text = quote.text
    for start, end in _places(value, text, is_number=is_number):
        return Phrase(text[start:end], quote.start + start, quote.start + end)
    return None


def _places(value: str, text: str, *, is_number: bool) -> Iterator[tuple[int, int]]:
    if is_number:
        wanted = plain_number(value)
        for start, end in phrases.numbers(text):
            if wanted in numbers_of(text[start:end]).given:
                yield start, end
        for match in re.finditer(r"\d[\d,.]*\d|\d", text):  # years, which are no counts
            if wanted in numbers_of(match.group()).given:
                yield match.span()
        return
    # Chinese breaks lines between any two characters, and other writing between words.
    parts = value.split() if value.isascii() else list(_SPACE.sub("", value))
    for match in re.finditer(
        (r"\s+" if value.isascii() else r"\s*").join(map(re.escape, parts)), text, re.IGNORECASE
    ):
        yield match.span()
    wanted_date = plain_date(value)
    for start, end in phrases.times(text) if wanted_date else ():
        found = plain_date(text[start:end])
        if found is not None and wanted_date is not None and found.startswith(wanted_date):
            yield start, end


def checked_cell(value: Any, column: Column, sources: SourceIndex) -> Cell:
    """A model's value held against the document; null, with the reason, where it does not stand there."""
    if value is None or value in ("", []):
        return Cell(reason="not_stated")
    hint = f"{column.name.replace('_', ' ')} {column.description}"
    if isinstance(value, list):
        cells = [checked_cell(each, column, sources) for each in value]
        kept = [cell for cell in cells if cell.is_filled]
        if not kept:
            return Cell(reason="not_in_document", rejected=str(value))
        return Cell([cell.value for cell in kept], kept[0].phrase, kept[0].quote)
    if isinstance(value, bool) or column.enum:
        quote = sources.find(str(value), hint=hint) if column.enum else None
        quote = quote or sources.evidence(hint)
        if quote is None:
            return Cell(reason="not_in_document", rejected=str(value))
        return Cell(value, locate(str(value), quote) if column.enum else None, quote)
    is_number = isinstance(value, int | float)
    text = str(value)
    quote = sources.find(text, hint=hint, is_number=is_number)
    if quote is None:
        return Cell(reason="not_in_document", rejected=text)
    typed = value if is_number else typed_value(text, column)
    if typed is None:
        return Cell(reason="wrong_type", rejected=text)
    return Cell(typed, locate(text, quote, is_number=is_number), quote)


def chosen_cell(text: str, start: int, quote: Quote, column: Column) -> Cell:
    """A phrase of the document as the cell it was chosen for."""
    value = typed_value(text, column)
    if value is None:
        return Cell(reason="wrong_type", rejected=text)
    before = quote.text[: start - quote.start]
    if isinstance(value, int | float) and _MINUS.search(before):
        value = -value
    phrase = Phrase(text, start, start + len(text))
    return Cell([value] if column.is_list else value, phrase, quote)
