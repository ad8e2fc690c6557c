"""Whatever of a sentence could be an answer to a question that asks for no date and no number."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from retrieval.short_answer import phrases
from retrieval.short_answer.phrases import Place
from retrieval.short_answer.words import Word

Shape = Literal["name", "noun", "joined", "tail", "clause"]

_CLAUSE_CUT = re.compile(
    r"(?<!\d)[,，](?!\d)\s*|(?<=\d)[,，](?!\d{3})\s*|[；;：()（）—–。]\s*|(?<!\d):\s*|\s-\s"
    r"|\s(?=(?:but|which|who|because|while|whereas|although)\s)"
)
_JOINING = re.compile(r"\s+(?:of|and|in|for|&)\s+(?:the\s+|an?\s+)?|的|和|与|及|、")
_ARTICLE = re.compile(r"\b(?:the|an?)\s$", re.IGNORECASE)
_OUTER = " \t\r\n,，.。;；:：!！?？、\"“”'‘’「」『』|*-–—·"


@dataclass(frozen=True, slots=True)
class Candidate:
    """Characters `start` to `end` of a sentence.

    `shape`: a name; a stretch of nouns, or two joined by a word like "of"; from such a stretch to
    the end of its clause; a whole clause.
    """

    start: int
    end: int
    shape: Shape


def list_candidates(sentence: str, words: Sequence[Word]) -> list[Candidate]:
    """Each place once, with the first shape it has; articles included, punctuation around it not."""
    found: dict[Place, Shape] = {}
    for start, end, shape in _shapes(sentence, words):
        article = _ARTICLE.search(sentence[:start])
        place = trimmed(sentence, article.start() if article else start, end)
        if place[0] < place[1]:
            found.setdefault(place, shape)
    return [Candidate(start, end, shape) for (start, end), shape in found.items()]


def clauses(sentence: str) -> Iterator[Place]:
    """Between commas, brackets, colons and words like "which"; not inside numbers."""
    start = 0
    for match in _CLAUSE_CUT.finditer(sentence):
        if match.start() > start:
            yield start, match.start()
        start = match.end()
    if start < len(sentence):
        yield start, len(sentence)


def trimmed(text: str, start: int, end: int) -> Place:
    """Without white space and punctuation at the ends."""
    while start < end and text[start] in _OUTER:
        start += 1
    while end > start and text[end - 1] in _OUTER:
        end -= 1
    return start, end


def _shapes(sentence: str, words: Sequence[Word]) -> Iterator[tuple[int, int, Shape]]:
    for start, end in phrases.names(sentence, words):
        yield start, end, "name"
    for first, last in clauses(sentence):
        runs = list(phrases.nouns([word for word in words if first <= word.start and word.end <= last]))
        for i, (start, end) in enumerate(runs):
            yield start, end, "noun"
            if i + 1 < len(runs) and _JOINING.fullmatch(sentence, end, runs[i + 1][0]):
                yield start, runs[i + 1][1], "joined"
            yield start, last, "tail"
        if runs:
            yield first, last, "clause"
