"""A PDF's bookmarks as headings, each located in its page's text."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pypdfium2 as pdfium

from ingest.cleaning import clean_title
from ingest.parsed import Heading
from storage.page_layout import LineBox

_MAX_DEPTH = 8
_MAX_ENTRIES = 20_000
_NUMBERING = re.compile(r"^(chapter)?[\d.]+|^第[\d一二三四五六七八九十百]+[章节]|^[a-z]\.[\d.]*")


@dataclass(frozen=True, slots=True)
class _Bookmark:
    title: str
    level: int
    top: float | None  # from the page's bottom, in points


class Outline:
    """The bookmarks of a document, by page."""

    def __init__(self, document: pdfium.PdfDocument) -> None:
        self._by_page: dict[int, list[_Bookmark]] = defaultdict(list)
        for num_read, entry in enumerate(document.get_toc(max_depth=_MAX_DEPTH)):
            if num_read >= _MAX_ENTRIES:
                break
            destination = entry.get_dest()
            title = clean_title(entry.get_title())
            if destination is None or not title:
                continue
            index = destination.get_index()
            if index is not None:
                self._by_page[index].append(_Bookmark(title, entry.level + 1, _top_of(destination)))

    def headings_of(
        self, index: int, text: str, lines: Sequence[LineBox], page_height: float
    ) -> tuple[Heading, ...]:
        """Headings of the page with this zero-based index, in text order.

        A bookmark starts at the line that shows its title, else at the line nearest to where it
        points, else at the page's beginning.
        """
        bookmarks = self._by_page.get(index)
        if not bookmarks:
            return ()
        shown = _shown_at_lines(text)
        headings = []
        for bookmark in bookmarks:
            start = _find_title(bookmark.title, shown)
            if start is None:
                start = _find_nearest(bookmark.top, lines, page_height)
            headings.append(Heading(start, bookmark.level, bookmark.title))
        return tuple(sorted(headings, key=lambda heading: heading.start))


def _top_of(destination: pdfium.PdfDest) -> float | None:
    _, view = destination.get_view()
    return view[1] if len(view) >= 2 else None


def _shown_at_lines(text: str) -> list[tuple[int, str]]:
    """Each line's start with its folded text and the next line's, because titles may wrap."""
    lines = text.split("\n")
    folded = [_fold(line) for line in lines] + [""]
    shown = []
    offset = 0
    for i, line in enumerate(lines):
        shown.append((offset, folded[i] + folded[i + 1]))
        offset += len(line) + 1
    return shown


def _fold(text: str) -> str:
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return "".join(text.casefold().split())


def _find_title(title: str, shown: Sequence[tuple[int, str]]) -> int | None:
    """Start of the line that begins with the title, whatever its numbering and spacing."""
    folded = _fold(title)
    wanted = _NUMBERING.sub("", folded) or folded
    for start, text in shown:
        if text.startswith(folded) or _NUMBERING.sub("", text).startswith(wanted):
            return start
    return None


def _find_nearest(top: float | None, lines: Sequence[LineBox], page_height: float) -> int:
    if top is None or not lines:
        return 0
    y = page_height - top
    return min(lines, key=lambda line: abs(line.y0 - y)).start
