"""What is known of an answer while it is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from accounting.ledger import LedgerLine
from core.usage import TokenUsage
from generation.citations import Citation, Quote
from inference.protocols import EngineTimings


@dataclass(frozen=True, slots=True)
class Statement:
    """A piece of an answer and the quote that supports it, if any; `separator` follows it."""

    text: str
    quote: Quote | None = None
    separator: str = " "


@dataclass(frozen=True, slots=True)
class Draft:
    """An answer before its citations are verified."""

    mode: str
    outcome: str
    statements: tuple[Statement, ...]
    warnings: tuple[str, ...] = ()
    finish_reason: str = "stop"
    model: str = ""

    @property
    def quotes(self) -> list[Quote]:
        return [statement.quote for statement in self.statements if statement.quote is not None]


def compose_text(statements: Sequence[Statement], citations: Sequence[Citation]) -> str:
    """The answer's text, with ` [n]` after each statement that citation n supports.

    A statement whose quote did not survive verification gets no mark, so every number exists.
    """
    numbers = {(c.document_id, c.start, c.end): c.number for c in citations}
    pieces: list[str] = []
    for statement in statements:
        pieces.append(statement.text)
        if (quote := statement.quote) is not None:
            number = numbers.get((quote.document_id, quote.start, quote.end))
            pieces.append(f" [{number}]" if number else "")
        pieces.append(statement.separator)
    return "".join(pieces).strip()


@dataclass(slots=True)
class Consumption:
    """What one attempt has used so far: its ledger lines, whether it succeeds or burns."""

    lines: list[LedgerLine] = field(default_factory=list)
    usage: TokenUsage = field(default_factory=TokenUsage)
    engine: EngineTimings = field(default_factory=EngineTimings)
    seconds: dict[str, float] = field(default_factory=dict)
    first_token_at: float | None = None  # time.monotonic()
