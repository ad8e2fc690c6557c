"""Phrases of a sentence that could be an answer, each with what can be told of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from retrieval.short_answer import phrases
from retrieval.short_answer.phrases import Place
from retrieval.short_answer.words import Word

_CLAUSE_CUT = re.compile(
    r"(?<!\d)[,，](?!\d)\s*|(?<=\d)[,，](?!\d{3})\s*|[；;：()（）—–。]\s*|(?<!\d):\s*|\s-\s"
    r"|\s(?=(?:but|which|who|because|while|whereas|although)\s)"
)
_ARTICLE = re.compile(r"\b(?:the|an?)\s$", re.IGNORECASE)
_CUES = re.compile(
    r"(?:\b(?:is|are|was|were|be|called|named|known as|termed|as|by|became|become|include[sd]?|including)\s+(?:the\s|an?\s)?"
    r"|是|为|叫|叫做|称为|称作|名为|即|由|被|包括|有|称|成为)[\"“「『《‘]?$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Candidate:
    start: int
    end: int
    shape: str  # "name", "noun", "tail", "clause"


def clauses(sentence: str) -> Iterator[Place]:
    start = 0
    for match in _CLAUSE_CUT.finditer(sentence):
        if match.start() > start:
            yield start, match.start()
        start = match.end()
    if start < len(sentence):
        yield start, len(sentence)


def candidates(sentence: str, words: Sequence[Word], kind: str) -> list[Candidate]:
    found: dict[Place, str] = {}

    def add(start: int, end: int, shape: str) -> None:
        article = _ARTICLE.search(sentence, 0, start)
        start = article.start() if article else start
        place = trimmed(sentence, start, end)
        if place[0] < place[1]:
            found.setdefault(place, shape)

    for place in phrases.names(sentence, words, kind=kind):
        add(*place, "name")
    for first, last in clauses(sentence):
        inside = [w for w in words if first <= w.start and w.end <= last]
        if not inside:
            continue
        runs = list(phrases.nouns(sentence, inside))
        for i, (a, b) in enumerate(runs):
            add(a, b, "noun")
            if i + 1 < len(runs) and phrases.JOINING.fullmatch(sentence, b, runs[i + 1][0]):
                add(a, runs[i + 1][1], "joined")
            add(a, last, "tail")
        add(first, last, "clause")
    return [Candidate(a, b, shape) for (a, b), shape in found.items()]


_OUTER = " \t\r\n,，.。;；:：!！?？、\"“”'‘’「」『』|*-–—·"


def trimmed(text: str, start: int, end: int) -> Place:
    while start < end and text[start] in _OUTER:
        start += 1
    while end > start and text[end - 1] in _OUTER:
        end -= 1
    return start, end
