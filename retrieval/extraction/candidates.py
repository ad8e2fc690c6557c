"""The sentences of passages, each with what it leans on to be understood."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from core.ids import DocumentId
from retrieval.passages import Passage
from retrieval.sentences import Sentence, is_bullet, is_table_row, split_sentences
from retrieval.term_weights import terms_of

_MAX_HEADING_CHARACTERS = 80
_ENDS_PROSE = re.compile(r"[.。!！?？;；,，、:：]['\"”’」』）)】]*$")
_ASKS = ("?", "？")
_LEADS_IN = re.compile(r"[:：]$")
_LEANS_BACK = re.compile(
    r"(?:It|They|He|She|This|These|That|Those|His|Her|Hers|Its|Their|Such|Both|However|Therefore|Thus|Instead"
    r"|Moreover|Furthermore|Similarly|Consequently|As a result|In addition|The (?:latter|former))\b"
    r"|[他她它]们?|[该此其]|这|那(?!么)|两者|二者|前者|后者|但|然而|因此|所以|于是|同时|此外|另外|并且|而且|随后|从而"
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sentence that may be kept.

    `context` holds the terms of the headings above it and of what it leans on: the candidate
    numbered `leans_on`, which stands before it in the same passage. `is_heading` is true of
    questions too: both announce what follows and say nothing themselves.
    """

    passage_index: int
    document_id: DocumentId
    start: int
    end: int
    text: str
    terms: frozenset[str]
    context: frozenset[str]
    leans_on: int | None
    is_heading: bool


def list_candidates(passages: Sequence[Passage]) -> list[Candidate]:
    """Every sentence, passage by passage, in text order."""
    found: list[Candidate] = []
    for index, passage in enumerate(passages):
        found.extend(_of_passage(index, passage, first=len(found)))
    return found


def _of_passage(index: int, passage: Passage, *, first: int) -> Iterable[Candidate]:
    sentences = split_sentences(passage.text)
    inherited = terms_of(" ".join((*passage.headings, passage.document_title)))
    heading: frozenset[str] = frozenset()
    lead_in = row_head = None
    for i, sentence in enumerate(sentences):
        terms = terms_of(sentence.text)
        bullet, row = is_bullet(sentence.text), is_table_row(sentence.text)
        is_heading = not row and _is_heading(passage.text, sentence)
        if is_heading:
            heading, lead_in = terms, None
        if not bullet:  # the items that follow belong to what introduces them
            lead_in = i if _LEADS_IN.search(sentence.text) else None
        row_head = None if not row else i if row_head is None else row_head
        before = sentences[i - 1].text if i else ""
        leans_on = _leans_on(i, sentence.text, before, lead_in=lead_in if bullet else None, row_head=row_head)
        leaned = terms_of(sentences[leans_on].text) if leans_on is not None else frozenset()
        yield Candidate(
            passage_index=index,
            document_id=passage.document_id,
            start=passage.start + sentence.start,
            end=passage.start + sentence.end,
            text=sentence.text,
            terms=terms,
            context=inherited | heading | leaned,
            leans_on=None if leans_on is None else first + leans_on,
            is_heading=is_heading or sentence.text.endswith(_ASKS),
        )


def _leans_on(i: int, text: str, before: str, *, lead_in: int | None, row_head: int | None) -> int | None:
    """Which sentence of the passage the `i`th, after `before`, needs to be understood."""
    if lead_in is not None:
        return lead_in
    if row_head is not None:
        return row_head if row_head < i else None
    if before.endswith(_ASKS) or (before and _LEANS_BACK.match(text)):
        return i - 1
    return None


def _is_heading(text: str, sentence: Sentence) -> bool:
    """A short line of its own that is no sentence, and has something below it."""
    if sentence.text.startswith("#"):
        return True
    if len(sentence.text) > _MAX_HEADING_CHARACTERS or _ENDS_PROSE.search(sentence.text):
        return False
    alone = not text[: sentence.start].rpartition("\n")[2].strip()
    return alone and text[sentence.end :].lstrip(" \t\r").startswith("\n") and not is_bullet(sentence.text)
