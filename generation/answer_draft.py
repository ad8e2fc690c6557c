"""What is known of an answer while it is made."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from generation.citations import Citation, Quote
from retrieval.term_weights import terms_of

_LOOKS_LIKE_MARK = re.compile(r"\[(\s*\d{1,3}\s*)\]")


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of an answer and the quotes that support it, best first; `separator` follows it."""

    text: str
    quotes: tuple[Quote, ...] = ()
    separator: str = " "

    @property
    def says_something(self) -> bool:
        """Whether there is a word in it that could need support."""
        return bool(terms_of(self.text))


@dataclass(frozen=True, slots=True)
class ExactText:
    """A text no mark may be written into, and for each of the draft's statements where it stands in it."""

    text: str
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """An answer before its citations are verified; one that is `refused` states nothing.

    `short_answer` lies within one of the quotes. An `exact` text is given out as it is, the statements
    being values in it.
    """

    mode: str
    outcome: Literal["answered", "refused"]
    statements: tuple[Statement, ...] = ()
    warnings: tuple[str, ...] = ()
    finish_reason: str = "stop"
    model: str = ""
    short_answer: Quote | None = None
    exact: ExactText | None = None

    @property
    def quotes(self) -> list[Quote]:
        """In the order in which the statements name them, which is the order of their numbers."""
        return [quote for statement in self.statements for quote in statement.quotes]


def apply_unsupported(
    statements: Sequence[Statement], choice: Literal["flag", "remove"]
) -> tuple[tuple[Statement, ...], tuple[str, ...]]:
    """The statements that stay, and a warning for each that has no quote.

    `flag` keeps them all; `remove` those that have a quote or say nothing.
    """
    unsupported = [s for s in statements if s.says_something and not s.quotes]
    if choice == "flag":
        return tuple(statements), tuple(f"Nothing in the passages supports: {s.text}" for s in unsupported)
    kept = tuple(s for s in statements if s not in unsupported)
    if not any(s.says_something for s in kept):
        kept = ()
    return kept, tuple(
        f"Left out, because nothing in the passages supports it: {s.text}" for s in unsupported
    )


@dataclass(frozen=True, slots=True)
class PlacedStatement:
    """A statement in an answer's text: `text == answer[start:end]`, its marks follow.

    `citations` are the numbers of the citations that support it, best first.
    """

    text: str
    start: int
    end: int
    citations: tuple[int, ...]
    supported: bool


@dataclass(frozen=True, slots=True)
class ComposedAnswer:
    """An answer as it is stored, streamed and shown. `text` is empty if nothing was supported."""

    text: str
    statements: tuple[PlacedStatement, ...]
    warnings: tuple[str, ...]


def compose(
    statements: Sequence[Statement],
    citations: Sequence[Citation],
    *,
    unsupported: Literal["flag", "remove"] = "flag",
) -> ComposedAnswer:
    """The answer, with ` [n]` after each statement that citation n supports.

    A quote that did not survive verification supports nothing, so every number exists. What looks
    like a mark but was written by a document, `[7]`, becomes `(7)`: the quote keeps it as it is.

    Args:
        citations: as `CitationVerifier.verify` gives them for these statements' quotes.
    """
    numbers = {citation.span: citation.number for citation in citations}
    verified = [
        replace(s, quotes=tuple(quote for quote in s.quotes if quote.span in numbers)) for s in statements
    ]
    kept, warnings = apply_unsupported(verified, unsupported)
    text = ""
    placed: list[PlacedStatement] = []
    for statement in kept:
        start = len(text)
        text += _LOOKS_LIKE_MARK.sub(r"(\1)", statement.text.strip())
        marks = tuple(dict.fromkeys(numbers[quote.span] for quote in statement.quotes))
        placed.append(PlacedStatement(text[start:], start, len(text), marks, bool(marks)))
        text += " " + "".join(f"[{number}]" for number in marks) if marks else ""
        text += statement.separator
    return ComposedAnswer(text.rstrip(), tuple(placed), warnings)


def statements_json(statements: Sequence[PlacedStatement]) -> list[dict[str, Any]]:
    """For `storage.models.Answer.statements`."""
    return [asdict(statement) | {"citations": list(statement.citations)} for statement in statements]


def short_answer_json(short: Quote | None, citations: Sequence[Citation]) -> dict[str, Any] | None:
    """For `storage.models.Answer.short_answer`: the phrase, where it stands, and its citation's number.

    None where there is no phrase, or its quote did not survive verification. The text is cut out of
    the citation, so it is as verbatim as that.
    """
    if short is None:
        return None
    for citation in citations:
        if (
            citation.document_id == short.document_id
            and citation.start <= short.start < short.end <= citation.end
        ):
            text = citation.quote[short.start - citation.start : short.end - citation.start]
            return {"text": text, "start": short.start, "end": short.end, "citation": citation.number}
    return None
