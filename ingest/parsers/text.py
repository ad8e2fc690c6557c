"""Plain text in any encoding; form feeds part pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ingest.cleaning import clean_text, clean_title, end_with_newline
from ingest.encoding_detection import decode_text
from ingest.parsed import DocumentInfo, Heading, ParsedDocument, ParsedPage
from ingest.parsers.limits import no_text, read_bounded

_MEDIA_TYPE = "text/plain"
_NUMBER_ZH = "[0-9０-９零〇一二三四五六七八九十百千两]+"
_NUMBER_EN = r"(?:[0-9]+|[IVXLC]+|one|two|three|four|five|six|seven|eight|nine|ten)"
# What ends a sentence cannot end a heading.
_CHINESE = re.compile(
    rf"^[ \t\u3000]*(第{_NUMBER_ZH}([部卷篇编章回节])(?:[ \t\u3000:：、].{{0,60}}|[^\s，。；]{{0,30}}))(?<![。，；])[ \t\u3000]*$",
    re.MULTILINE,
)
_ENGLISH = re.compile(
    rf"^[ \t]*((part|book|volume|chapter|appendix|section)[ \t]+{_NUMBER_EN}(?:[ \t]*[.:—–-]?[ \t]*[A-Z0-9“\"][^\n]{{0,70}})?[.:]?)[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
_RANKS = {
    "部": 0, "卷": 0, "篇": 0, "编": 0, "part": 0, "book": 0, "volume": 0,
    "章": 1, "回": 1, "chapter": 1, "appendix": 1,
    "节": 2, "section": 2,
}  # fmt: skip


def parse(path: Path, name: str) -> ParsedDocument:
    """A page, or one per form feed.

    Raises:
        EmptyDocument: only white space.
        TooLarge: see `limits.MAX_TEXT_BYTES`.
    """
    decoded = decode_text(read_bounded(path, name))
    text = clean_text(decoded.text)
    if not text.strip():
        raise no_text(name)
    texts = text.removesuffix("\f").split("\f")
    warnings = (decoded.warning,) if decoded.warning else ()
    return DocumentInfo(_MEDIA_TYPE, "", len(texts), warnings), _make_pages(texts)


def _make_pages(texts: list[str]) -> Iterator[ParsedPage]:
    ranks = sorted({rank for text in texts for rank, _, _ in _find_headings(text)})
    levels = {rank: level for level, rank in enumerate(ranks, start=1)}
    for number, text in enumerate(texts, start=1):
        headings = tuple(Heading(start, levels[rank], title) for rank, start, title in _find_headings(text))
        yield ParsedPage(number=number, text=end_with_newline(text), headings=headings)


def _find_headings(text: str) -> list[tuple[int, int, str]]:
    """(rank, start, text) of lines such as `第三回 …` and `Chapter 3`, in order."""
    found = [
        (_RANKS[match.group(2).lower()], match.start(1), clean_title(match.group(1)))
        for pattern in (_CHINESE, _ENGLISH)
        for match in pattern.finditer(text)
    ]
    return sorted(found, key=lambda heading: heading[1])
