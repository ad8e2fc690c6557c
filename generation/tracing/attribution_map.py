"""Which statement of an answer rests on which passage, as citations and words say it: no model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from generation.answer_draft import PlacedStatement
from generation.citations import Citation
from generation.prompt_passages import passage_id
from retrieval.passages import Passage
from retrieval.term_weights import terms_of


def attribution_json(
    statements: Sequence[PlacedStatement],
    citations: Sequence[Citation],
    passages: Sequence[Passage],
    *,
    written: str | None,
) -> dict[str, Any]:
    """For each statement of the answer a row with a value for each passage, in the passages' order.

    `cited`: the numbers of its citations that lie in the passage. `coverage`: the share of its words
    that stand there, where `written` is known. `written_start` and `written_end` are its place in
    `written`, what the model wrote before marks were set; None where it stands there otherwise.
    """
    words = [terms_of(passage.text) for passage in passages] if written is not None else []
    rows = []
    position = 0
    for statement in statements:
        found = -1 if written is None else written.find(statement.text, position)
        position = found + len(statement.text) if found >= 0 else position
        own = terms_of(statement.text) if words else frozenset()
        rows.append(
            {
                "start": statement.start,
                "end": statement.end,
                "is_supported": statement.supported,
                "written_start": found if found >= 0 else None,
                "written_end": position if found >= 0 else None,
                "cited": [_cited(statement, citations, passage) for passage in passages],
                "coverage": [round(len(own & there) / len(own), 4) if own else 0.0 for there in words],
            }
        )
    return {"passages": [passage_id(passage) for passage in passages], "statements": rows}


def _cited(statement: PlacedStatement, citations: Sequence[Citation], passage: Passage) -> list[int]:
    return [
        citation.number
        for citation in citations
        if citation.number in statement.citations
        and citation.document_id == passage.document_id
        and passage.start <= citation.start < citation.end <= passage.end
    ]
