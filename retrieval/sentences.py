"""Sentences of English and Chinese text, as exact spans of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

MAX_SENTENCE_CHARACTERS = 400
MAX_HAN_SENTENCE_CHARACTERS = 160  # Chinese says as much in them

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
_NO_ITEM = re.compile(r"\s*(?:#|\d+\.\d)")  # a heading, `3.5 metres`
_TABLE_ROW = re.compile(r"[ \t]*\|")
_LINE_BREAK = re.compile(r"[ \t\r]*\n(?P<blank>[ \t\r\n]*\n)?")
_HAN = re.compile(r"[\u3400-\u9fff]")
_CLAUSE_CUT = re.compile(r"[；;]\s*")
_SOFT_CUT = re.compile(r"[；;，,、：:]\s*|\s+")


@dataclass(frozen=True, slots=True)
class Sentence:
    """`text == source[start:end]`, without white space around it."""

    start: int
    end: int
    text: str


@lru_cache(maxsize=512)  # one passage is cut by reranking, support, extraction and attribution in turn
def split_sentences(text: str) -> tuple[Sentence, ...]:
    """Every sentence of `text`, in order; together they hold all that is not white space.

    Chinese ends at 。！？ and …… with their closing quotes; English at . ! ? before white space
    and a capital, but not after abbreviations, initials or inside numbers. Blank lines, bullets,
    rows of `| a | b |` tables and heading-like short lines end a sentence too; a line break inside wrapped prose does not.
    What is longer than 400 characters (tables, code), or 160 of Chinese, is cut at a semicolon, a
    comma or a space.
    """
    found: list[Sentence] = []
    for start, end in _lines(text):
        is_row = _TABLE_ROW.match(text, start) is not None  # cells may hold sentences
        for first, last in [(start, end)] if is_row else _by_punctuation(text, start, end):
            found.extend(_stripped(text, a, b) for a, b in _cut_long(text, first, last))
    return tuple(sentence for sentence in found if sentence.text)


def is_bullet(sentence: str) -> bool:
    """Whether a sentence is an item of a list: `- x`, `3. x`, `（二）x`."""
    return bool(_BULLET.match(sentence)) and not _NO_ITEM.match(sentence)


def is_table_row(sentence: str) -> bool:
    """Whether a sentence is a row, `| a | b |`, of a table as Markdown writes it."""
    return bool(_TABLE_ROW.match(sentence))


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
    if _BULLET.match(text, following) or _TABLE_ROW.match(text, following) or _TABLE_ROW.match(line):
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
    while end - start > (limit := _limit(text, start, end)):
        window = text[start : start + limit]
        cut = start + (_last_cut(_CLAUSE_CUT, window) or _last_cut(_SOFT_CUT, window) or limit)
        yield start, cut
        start = cut
    yield start, end


def _limit(text: str, start: int, end: int) -> int:
    """How long a sentence from `start` may be: by what it is mostly written in."""
    head = text[start : min(end, start + MAX_HAN_SENTENCE_CHARACTERS)]
    return MAX_HAN_SENTENCE_CHARACTERS if 2 * len(_HAN.findall(head)) > len(head) else MAX_SENTENCE_CHARACTERS


def _last_cut(pattern: re.Pattern[str], window: str) -> int:
    """Where the last separator in the second half of `window` ends; 0 if there is none."""
    ends = [match.end() for match in pattern.finditer(window)]
    return ends[-1] if ends and ends[-1] > len(window) // 2 else 0


def _stripped(text: str, start: int, end: int) -> Sentence:
    body = text[start:end]
    start += len(body) - len(body.lstrip())
    return Sentence(start, start + len(body.strip()), body.strip())
