"""Lines of a PDF page with their boxes, at hardly more than the price of the text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from ctypes import byref

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from ingest.cleaning import clean_text, is_suspicious
from storage.page_layout import LineBox

# pdfium joins a line that ends in a hyphen to the next one and puts U+FFFE in place of the hyphen;
# elsewhere U+FFFE is a glyph that means nothing.
_JOINED_HYPHEN = re.compile("(?<=[^\\W_])(?<![\u2e80-\u9fff])\ufffe(?=[^\\W_])(?![\u2e80-\u9fff])")
_Box = tuple[float, float, float, float]


def extract_lines(page: pdfium.PdfPage, text_page: pdfium.PdfTextPage) -> tuple[str, tuple[LineBox, ...]]:
    """The page's text, and a box for each of its lines that shows something.

    Hyphens at line ends stay, followed by the line's end. No boxes where pdfium's characters
    cannot be matched with its text (rare, broken fonts).
    """
    raw = text_page.get_text_range()
    clean = _clean_line if is_suspicious(raw.replace("\r\n", "\n")) else str
    measure = _choose_measure(raw, text_page.count_chars())
    bounds_of = _BoundsReader(text_page)
    place = _to_top_left(page)
    parts: list[str] = []
    boxes: list[LineBox] = []
    offset = 0
    index = 0  # of pdfium's character
    for piece, separator in _split_lines(raw):
        line = clean(piece) + ("-" if separator == "\ufffe" else "")
        if measure:
            num_chars = measure(piece)
            if line and not line.isspace():
                first = index + measure(piece) - measure(piece.lstrip())
                bounds = bounds_of(first, index + measure(piece.rstrip()) - 1)
                if bounds:
                    boxes.append(LineBox(offset, offset + len(line), *place(bounds)))
            index += num_chars + len(separator)
        parts.append(line)
        offset += len(line) + 1
    return "\n".join(parts) + "\n", tuple(boxes)


def _clean_line(line: str) -> str:
    return clean_text(line.replace("\ufffe", " ")).replace("\n", " ").replace("\f", " ")


def _split_lines(raw: str) -> Iterator[tuple[str, str]]:
    """Each line and what ended it: CR LF, a joined hyphen, or the page's end."""
    for line in raw.split("\r\n"):
        pieces = _JOINED_HYPHEN.split(line) if "\ufffe" in line else [line]
        for piece in pieces[:-1]:
            yield piece, "\ufffe"
        yield pieces[-1], "\r\n"


def _choose_measure(raw: str, num_chars: int) -> Callable[[str], int] | None:
    """How to count pdfium's characters in a line: by code points or by UTF-16 units."""
    if len(raw) == num_chars:
        return len
    if _utf16_units(raw) == num_chars:
        return _utf16_units
    return None


def _utf16_units(text: str) -> int:
    return len(text) + sum(character > "\uffff" for character in text)


class _BoundsReader:
    """Left, bottom, right, top of a line, in the page's own coordinates.

    A line is as high as its fonts and reaches from its first visible character to its last: two
    calls into pdfium instead of one per character or word.
    """

    def __init__(self, text_page: pdfium.PdfTextPage) -> None:
        self._handle = text_page.raw
        self._first, self._last = pdfium_c.FS_RECTF(), pdfium_c.FS_RECTF()
        self._first_reference, self._last_reference = byref(self._first), byref(self._last)

    def __call__(self, first_index: int, last_index: int) -> _Box | None:
        read = pdfium_c.FPDFText_GetLooseCharBox
        if not (
            read(self._handle, first_index, self._first_reference)
            and read(self._handle, last_index, self._last_reference)
        ):
            return None
        first, last = self._first, self._last
        return (
            min(first.left, last.left),
            min(first.bottom, last.bottom),
            max(first.right, last.right),
            max(first.top, last.top),
        )


def _to_top_left(page: pdfium.PdfPage) -> Callable[[_Box], _Box]:
    """Maps a box from PDF coordinates to points from the top left of the page as displayed."""
    left, bottom, right, top = page.get_bbox()
    rotation = page.get_rotation()

    def place(box: _Box) -> _Box:
        x0, y0, x1, y1 = box
        if rotation == 90:
            return y0 - bottom, x0 - left, y1 - bottom, x1 - left
        if rotation == 180:
            return right - x1, y0 - bottom, right - x0, y1 - bottom
        if rotation == 270:
            return top - y1, right - x1, top - y0, right - x0
        return x0 - left, top - y1, x1 - left, top - y0

    return place
