"""Sentences of English and Chinese text, as exact spans of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_SENTENCE_CHARACTERS = 400

_CLOSERS = "\"'”’」』）)】》〉\\]"
_HAN_END = re.compile(rf"(?:[。！？]|…{{1,2}}(?=[{_CLOSERS}]|\s|$))[。！？!?…]*[{_CLOSERS}]*")
_LATIN_END = re.compile(rf"[.!?]+[{_CLOSERS}]*(?=\s|$|[\u3400-\u9fff])")
_END = re.compile(f"{_HAN_END.pattern}|{_LATIN_END.pattern}")
_STARTS_SENTENCE = re.compile(r"\s*[\"'“‘「『（(\[]*(?:[A-ZÀ-ÖØ-Þ0-9]|[^\x00-\u024f]|$)")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\[\"'“‘])(?:Mr|Mrs|Ms|Dr|Prof|Sr|Jr|St|Mt|Ft|Gen|Col|Capt|Lt|Sgt|Rev|Hon|Gov|Sen|Rep|Pres"
    r"|vs|etc|al|cf|eg|ie|e\.g|i\.e|viz|approx|ca|Fig|Figs|Eq|Eqs|Sec|Ch|No|Nos|Vol|pp?|ed|eds|Inc|Ltd|Co|Corp"
    r"|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec|[A-Z]|(?:[A-Za-z]\.)+[A-Za-z])\.$"
)
_BULLET = re.compile(
    r"\s*(?:[-*+•·‣▪◦●○–—]\s|#{1,6}\s|\d{1,3}[.)、]\s?|[（(]?(?:[一二三四五六七八九十]{1,3}|[a-z]|\d{1,3})[)）、])"
)
_LINE_BREAK = re.compile(r"[ \t\r]*\n(?P<blank>[ \t\r\n]*\n)?")
_SOFT_CUT = re.compile(r"[；;，,、：:]\s*|\s+")


@dataclass(frozen=True, slots=True)
class Sentence:
    """`text == source[start:end]`, without white space around it."""

    start: int
    end: int
    text: str


def split_sentences(text: str) -> list[Sentence]:
    """Every sentence of `text`, in order; together they hold all that is not white space.

    Chinese ends at 。！？ and …… with their closing quotes; English at . ! ? before white space
    and a capital, but not after abbreviations, initials or inside numbers. Blank lines, bullets
    and heading-like short lines end a sentence too; a line break inside wrapped prose does not.
    What is longer than 400 characters (tables, code) is cut at a comma or a space.
    """
    found: list[Sentence] = []
    for start, end in _lines(text):
        for first, last in _by_punctuation(text, start, end):
            found.extend(_stripped(text, a, b) for a, b in _cut_long(text, first, last))
    return [sentence for sentence in found if sentence.text]


def _lines(text: str) -> Iterator[tuple[int, int]]:
    """Stretches between the line breaks that end a sentence."""
    start = line_start = 0
    widest = max((len(line) for line in text.split("\n")), default=0)
    for match in _LINE_BREAK.finditer(text):
        line = text[line_start : match.start()]
        if match["blank"] or _ends_block(line, text, match.end(), widest):
            yield start, match.start()
            start = match.end()
        line_start = match.end()
    yield start, len(text)


def _ends_block(line: str, text: str, following: int, widest: int) -> bool:
    if _BULLET.match(text, following):
        return True
    tail = line.rstrip()
    if not tail or tail[-1] in ":：。！？":
        return True
    # A line much shorter than its neighbours was not wrapped: a heading, or a paragraph's last.
    return len(tail) < 0.6 * widest and bool(_STARTS_SENTENCE.match(text, following))


def _by_punctuation(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    first = start
    for match in _END.finditer(text, start, end):
        if match.start() >= first and _is_end(text, match, end):
            yield first, match.end()
            first = match.end()
    if first < end:
        yield first, end


def _is_end(text: str, match: re.Match[str], limit: int) -> bool:
    mark = match.group()
    if mark[0] in "。！？…":
        return True
    if match.end() < limit and not _STARTS_SENTENCE.match(text, match.end()):
        return False
    if mark.startswith(".") and not mark.startswith(".."):
        before = text[max(0, match.start() - 16) : match.start() + 1]
        if _ABBREVIATION.search(before):
            return match.end() >= limit
    return True


def _cut_long(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while end - start > MAX_SENTENCE_CHARACTERS:
        window = text[start : start + MAX_SENTENCE_CHARACTERS]
        cuts = [m.end() for m in _SOFT_CUT.finditer(window) if m.end() > MAX_SENTENCE_CHARACTERS // 2]
        cut = start + (cuts[-1] if cuts else MAX_SENTENCE_CHARACTERS)
        yield start, cut
        start = cut
    yield start, end


def _stripped(text: str, start: int, end: int) -> Sentence:
    body = text[start:end]
    start += len(body) - len(body.lstrip())
    return Sentence(start, start + len(body.strip()), body.strip())
