"""Nodes of a summary: what they say, where it is from, and the key that stands for both."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.ids import content_hash
from generation.answer_draft import Statement
from generation.citations import Quote

Recipe = Mapping[str, Any]
"""All besides the input that a node's text depends on: writer, revisions, style, room."""


@dataclass(frozen=True, slots=True)
class Node:
    """`statements` quote documents at their characters. `vectors` are the statements', one a row, where
    the writer needs them."""

    key: str
    statements: tuple[Statement, ...]
    vectors: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 0), dtype=np.float32))

    @property
    def quotes(self) -> list[Quote]:
        return [quote for statement in self.statements for quote in statement.quotes]


def section_key(text: str, headings: Sequence[str], recipe: Recipe) -> str:
    """The key of a section: the same wherever the text stands under the same headings."""
    return content_hash(json.dumps(["section", text, list(headings), recipe], sort_keys=True))


def parent_key(children: Sequence[str], recipe: Recipe) -> str:
    """The key of what is made of nodes, in their order."""
    return content_hash(json.dumps(["nodes", list(children), recipe], sort_keys=True))


def group_children(keys: Sequence[str], *, most: int) -> list[range]:
    """Which children are reduced together: at most `most`, by place.

    Where there are more, a group ends at keys that say so by themselves, so that a child which comes or
    goes changes its own group and leaves the others as they were.
    """
    if len(keys) <= most:
        return [range(len(keys))]
    groups: list[range] = []
    first = 0
    for i, key in enumerate(keys, start=1):
        size = i - first
        if size == most or (size >= max(2, most // 4) and int(key[:8], 16) % max(2, most // 2) == 0):
            groups.append(range(first, i))
            first = i
    if first < len(keys):
        groups.append(range(first, len(keys)))
    return groups


# ---- as they are stored -----------------------------------------------------------------------


def section_json(statements: Sequence[Statement], section_start: int) -> list[dict[str, Any]]:
    """Statements with their quotes' places within the section."""
    return [
        {
            "text": statement.text,
            "spans": [[quote.start - section_start, quote.end - section_start] for quote in statement.quotes],
        }
        for statement in statements
    ]


def section_statements(
    stored: Sequence[Mapping[str, Any]], text: str, section_start: int, quote_of: Quote
) -> tuple[Statement, ...]:
    """What `section_json` gave, in the document of `quote_of`."""
    return tuple(
        Statement(
            item["text"],
            tuple(
                Quote(
                    quote_of.document_id,
                    quote_of.document_name,
                    section_start + start,
                    section_start + end,
                    text[start:end],
                )
                for start, end in item["spans"]
            ),
        )
        for item in stored
    )


def parent_json(statements: Sequence[Statement], children: Sequence[Node]) -> list[dict[str, Any]]:
    """Statements with their quotes named by the children's: child, statement, quote."""
    places = {
        quote.span: [c, s, q]
        for c, child in enumerate(children)
        for s, statement in enumerate(child.statements)
        for q, quote in enumerate(statement.quotes)
    }
    return [
        {"text": statement.text, "refs": [places[quote.span] for quote in statement.quotes]}
        for statement in statements
    ]


def parent_statements(stored: Sequence[Mapping[str, Any]], children: Sequence[Node]) -> tuple[Statement, ...]:
    """What `parent_json` gave, over children that may stand elsewhere by now."""
    return tuple(
        Statement(item["text"], tuple(children[c].statements[s].quotes[q] for c, s, q in item["refs"]))
        for item in stored
    )


def document_json(statements: Sequence[Statement]) -> list[dict[str, Any]]:
    """For `SummaryDocument.statements`: with the document's own characters."""
    return [
        {
            "text": statement.text,
            "quotes": [
                {"start": quote.start, "end": quote.end, "text": quote.text} for quote in statement.quotes
            ],
        }
        for statement in statements
    ]


def document_statements(stored: Sequence[Mapping[str, Any]], quote_of: Quote) -> tuple[Statement, ...]:
    """What `document_json` gave."""
    return tuple(
        Statement(
            item["text"],
            tuple(
                Quote(
                    quote_of.document_id, quote_of.document_name, quote["start"], quote["end"], quote["text"]
                )
                for quote in item["quotes"]
            ),
        )
        for item in stored
    )


def pack_vectors(vectors: NDArray[np.float32]) -> bytes:
    return vectors.astype(np.float16).tobytes()


def unpack_vectors(packed: bytes, num_statements: int) -> NDArray[np.float32]:
    if not packed or not num_statements:
        return np.empty((num_statements, 0), dtype=np.float32)
    return np.frombuffer(packed, dtype=np.float16).astype(np.float32).reshape(num_statements, -1)
