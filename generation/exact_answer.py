"""Answers whose text is exactly what was asked for: no mark is written into it, no sentence left out."""

from __future__ import annotations

from collections.abc import Sequence

from generation.answer_draft import ComposedAnswer, ExactText, PlacedStatement, Statement
from generation.citations import Citation


def compose_exact(
    exact: ExactText, statements: Sequence[Statement], citations: Sequence[Citation]
) -> ComposedAnswer:
    """The text as it is, its values with the numbers of the citations that state them.

    A quote that did not survive verification states nothing. Every value that nothing states is told.
    """
    numbers = {citation.span: citation.number for citation in citations}
    placed = []
    for statement, (start, end) in zip(statements, exact.places, strict=True):
        marks = tuple(dict.fromkeys(numbers[q.span] for q in statement.quotes if q.span in numbers))
        placed.append(PlacedStatement(statement.text, start, end, marks, bool(marks)))
    warnings = tuple(f"Nothing in the passages states: {s.text}" for s in placed if not s.supported)
    return ComposedAnswer(exact.text, tuple(placed), warnings)
