"""Where a page's lines stand: `storage.models.Page.layout`, and the boxes of a stretch of its text.

Boxes are in PDF points (1/72 inch) from the top left of the page as it is displayed, rotation and
cropping applied: x grows to the right, y downwards.
"""

from __future__ import annotations

import json
import unicodedata
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import StoreCorrupt


@dataclass(frozen=True, slots=True)
class LineBox:
    """Where characters `start` to `end` of a page's text stand, in points from the top left."""

    start: int
    end: int
    x0: float
    y0: float
    x1: float
    y1: float


def pack_layout(lines: Sequence[LineBox]) -> bytes:
    """Compressed JSON rows `[start, end, x0, y0, x1, y1]`, tenths of a point; empty for no lines."""
    if not lines:
        return b""
    rows = [
        [line.start, line.end, *(round(side, 1) for side in (line.x0, line.y0, line.x1, line.y1))]
        for line in lines
    ]
    return zlib.compress(json.dumps(rows, separators=(",", ":")).encode("ascii"), level=6)


def unpack_layout(packed: bytes) -> tuple[LineBox, ...]:
    """The boxes that `pack_layout` packed.

    Raises:
        StoreCorrupt: the bytes are not a layout.
    """
    if not packed:
        return ()
    try:
        return tuple(LineBox(*row) for row in json.loads(zlib.decompress(packed)))
    except (zlib.error, ValueError, TypeError) as error:
        raise StoreCorrupt(
            "A page's stored layout cannot be read.", remedy="Delete the document and upload it again."
        ) from error


def boxes_between(lines: Sequence[LineBox], text: str, start: int, end: int) -> list[LineBox]:
    """One box for each line that characters `start` to `end` of the page's `text` touch, in order.

    Where the stretch begins or ends inside a line, that side of its box is estimated from the
    widths that characters usually have; a line that is higher than wide is given whole. Stretches of
    white space alone have no box.
    """
    boxes = []
    for line in lines:
        first, last = _without_space(text, max(start, line.start), min(end, line.end))
        if first < last:
            boxes.append(_part(line, text, first, last))
    return boxes


def _without_space(text: str, first: int, last: int) -> tuple[int, int]:
    while first < last and text[first].isspace():
        first += 1
    while first < last and text[last - 1].isspace():
        last -= 1
    return first, last


def _part(line: LineBox, text: str, first: int, last: int) -> LineBox:
    width = line.x1 - line.x0
    if line.y1 - line.y0 > width and line.end - line.start > 1:
        return line  # written upwards or downwards, which the box does not tell
    visible_start, visible_end = _without_space(text, line.start, line.end)
    whole = _width(text[visible_start:visible_end])
    x0 = line.x0 + width * _width(text[visible_start:first]) / whole
    x1 = line.x0 + width * _width(text[visible_start:last]) / whole
    return LineBox(first, last, round(x0, 1), line.y0, round(x1, 1), line.y1)


_NARROW = frozenset("iIjlftr.,;:!|'’()[] ")


def _width(text: str) -> float:
    """Width in ems, about: Han is as wide as high, Latin half of that, `i` less, `M` more."""
    return sum(map(_character_width, text))


def _character_width(character: str) -> float:
    if character in _NARROW:
        return 0.28
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0
    return 0.67 if character.isupper() else 0.5
