"""Answers as they are stored and shown: statements with their place, marks, and what lacks support."""

from __future__ import annotations

import json

import pytest

from core.ids import DocumentId
from generation.answer_draft import Draft, Statement, apply_unsupported, compose, statements_json
from generation.citations import Citation, Quote


def quote(start: int, document: str = "doc_a") -> Quote:
    return Quote(DocumentId(document), f"{document}.txt", start, start + 9, "a passage")


def verified(statements: tuple[Statement, ...]) -> list[Citation]:
    """What verification gives when all is well."""
    quotes = dict.fromkeys(Draft("abstractive", "answered", statements).quotes)
    return [
        Citation(i, q.document_id, q.document_name, q.start, q.end, 1, 1, q.text)
        for i, q in enumerate(quotes, 1)
    ]


MIXED = (
    Statement("Neptune has moons.", (quote(40),)),
    Statement("Bananas are blue.", ()),
    Statement("它们由冰构成。", (quote(10), quote(40)), ""),
    Statement("——", (), "\n"),
    Statement("Triton is one.", (quote(10),), "\n\n"),
)


def test_every_statement_says_where_it_stands_and_its_marks_follow() -> None:
    composed = compose(MIXED, verified(MIXED))
    assert composed.text == (
        "Neptune has moons. [1] Bananas are blue. 它们由冰构成。 [2][1]——\nTriton is one. [2]"
    )
    assert [composed.text[s.start : s.end] for s in composed.statements] == [s.text for s in MIXED]
    assert [s.citations for s in composed.statements] == [(1,), (), (2, 1), (), (2,)]
    assert [s.supported for s in composed.statements] == [True, False, True, False, True]


def test_numbers_count_by_first_appearance_without_gaps_or_repeats() -> None:
    composed = compose(MIXED, verified(MIXED))
    named = [number for statement in composed.statements for number in statement.citations]
    assert list(dict.fromkeys(named)) == [1, 2]


def test_flagging_keeps_a_sentence_and_warns() -> None:
    composed = compose(MIXED, verified(MIXED), unsupported="flag")
    assert composed.warnings == ("Nothing in the passages supports: Bananas are blue.",)


def test_removing_takes_a_sentence_out_and_says_which() -> None:
    composed = compose(MIXED, verified(MIXED), unsupported="remove")
    assert composed.text == "Neptune has moons. [1] 它们由冰构成。 [2][1]——\nTriton is one. [2]"
    assert all(s.supported or s.text == "——" for s in composed.statements)
    assert composed.warnings == ("Left out, because nothing in the passages supports it: Bananas are blue.",)


def test_a_quote_that_is_not_verified_supports_nothing_and_has_no_number() -> None:
    (kept,) = (c for c in verified(MIXED) if c.start == 10)
    composed = compose(MIXED, [Citation(1, *kept.span[:1], "", kept.start, kept.end, 1, 1, kept.quote)])
    assert [s.citations for s in composed.statements] == [(), (), (1,), (), (1,)]
    assert len(composed.warnings) == 2


def test_where_nothing_is_supported_removing_leaves_nothing() -> None:
    composed = compose((Statement("香蕉是蓝的。"), Statement("——")), [], unsupported="remove")
    assert (composed.text, composed.statements) == ("", ())


@pytest.mark.parametrize("choice", ["flag", "remove"])
def test_what_says_nothing_needs_no_support(choice: str) -> None:
    rule = Statement("***")
    kept, warnings = apply_unsupported((rule, MIXED[0]), choice)  # type: ignore[arg-type]
    assert (kept, warnings) == ((rule, MIXED[0]), ())


def test_statements_are_stored_as_plain_json() -> None:
    stored = statements_json(compose(MIXED, verified(MIXED)).statements)
    assert json.loads(json.dumps(stored)) == stored
    assert stored[2] == {
        "text": "它们由冰构成。", "start": 41, "end": 48, "citations": [2, 1], "supported": True
    }  # fmt: skip
