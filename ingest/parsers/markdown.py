"""Markdown: the text verbatim, its headings noted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ingest.cleaning import clean_text, clean_title, end_with_newline
from ingest.encoding_detection import decode_text
from ingest.parsed import DocumentInfo, Heading, ParsedDocument, ParsedPage
from ingest.parsers.limits import no_text, read_bounded

_MEDIA_TYPE = "text/markdown"
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_NOT_A_PARAGRAPH = re.compile(r"\s*$| {4}|\t| {0,3}(?:[>|]|[-*+] |\d+[.)] )")
_FRONT_MATTER = re.compile(r"---\n(.*?)\n(?:---|\.\.\.)\n", re.DOTALL)
_FRONT_TITLE = re.compile(r"^title\s*:\s*[\"']?(.+?)[\"']?\s*$", re.MULTILINE)
_INLINE_MARKS = re.compile(r"[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}|!?\[([^\]]*)\]\([^)]*\)")


def parse(path: Path, name: str) -> ParsedDocument:
    """One page.

    Raises:
        EmptyDocument: only white space.
        TooLarge: see `limits.MAX_TEXT_BYTES`.
    """
    decoded = decode_text(read_bounded(path, name))
    text = end_with_newline(clean_text(decoded.text).replace("\f", "\n"))
    if not text.strip():
        raise no_text(name)
    front_matter = _FRONT_MATTER.match(text)
    body_start = front_matter.end() if front_matter else 0
    headings = tuple(find_headings(text, body_start))
    warnings = (decoded.warning,) if decoded.warning else ()
    info = DocumentInfo(_MEDIA_TYPE, _title(front_matter, headings), 1, warnings)
    return info, iter((ParsedPage(number=1, text=text, headings=headings),))


def _title(front_matter: re.Match[str] | None, headings: tuple[Heading, ...]) -> str:
    if front_matter and (titled := _FRONT_TITLE.search(front_matter.group(1))):
        return clean_title(titled.group(1))
    return headings[0].text if headings and headings[0].level == 1 else ""


def find_headings(text: str, body_start: int = 0) -> Iterator[Heading]:
    """ATX (`# x`) and setext (underlined) headings outside code fences, from `body_start` on."""
    fence = ""
    previous = ""
    previous_start = offset = body_start
    for line in text[body_start:].split("\n"):
        opened = _FENCE.match(line)
        if opened and (not fence or line.strip().startswith(fence)):
            fence = "" if fence else opened.group(1)
            previous = ""
        elif not fence:
            heading = _heading_at(line, offset, previous, previous_start)
            if heading and heading.text:
                yield heading
            previous = "" if heading else line
        previous_start = offset
        offset += len(line) + 1


def _heading_at(line: str, start: int, previous: str, previous_start: int) -> Heading | None:
    if atx := _ATX.match(line):
        return Heading(start, len(atx.group(1)), _plain(atx.group(2) or ""))
    if (underline := _SETEXT.match(line)) and not _NOT_A_PARAGRAPH.match(previous):
        return Heading(previous_start, 1 if underline.group(1)[0] == "=" else 2, _plain(previous))
    return None


def _plain(text: str) -> str:
    return clean_title(_INLINE_MARKS.sub(r"\1", text))
