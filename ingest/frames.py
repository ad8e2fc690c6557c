"""How a parsing process tells its reader what it found: JSON frames on a pipe.

A frame is a kind (one byte), the length of what follows, and JSON. No pickle: the process that
writes has read hostile files.
"""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO

import core.errors
from core.errors import LongleafError, UnreadableDocument
from ingest.parsed import DocumentInfo, Heading, ParsedPage
from storage.page_layout import LineBox

HEADER = struct.Struct(">cI")
INFO, PAGE, ERROR, END = b"i", b"p", b"e", b"z"
MAX_FRAME_BYTES = 512 * 1024 * 1024
_BOX_SCALE = 10  # boxes travel in tenths of a point


def send_frame(output: BinaryIO, kind: bytes, content: object) -> None:
    """Write one frame and flush it."""
    encoded = json.dumps(content, separators=(",", ":")).encode("ascii")
    output.write(HEADER.pack(kind, len(encoded)) + encoded)
    output.flush()


def pack_info(info: DocumentInfo) -> list[object]:
    return [info.media_type, info.title, info.num_pages, info.warnings]


def unpack_info(content: Any) -> DocumentInfo:
    media_type, title, num_pages, warnings = content
    return DocumentInfo(media_type, title, num_pages, tuple(warnings))


def pack_page(page: ParsedPage) -> list[object]:
    lines = [
        number
        for line in page.lines
        for number in (
            line.start,
            line.end,
            round(line.x0 * _BOX_SCALE),
            round(line.y0 * _BOX_SCALE),
            round(line.x1 * _BOX_SCALE),
            round(line.y1 * _BOX_SCALE),
        )
    ]
    headings = [(heading.start, heading.level, heading.text) for heading in page.headings]
    return [page.number, page.text, page.width, page.height, lines, headings, page.warnings]


def unpack_page(content: Any) -> ParsedPage:
    number, text, width, height, flat, headings, warnings = content
    lines = tuple(
        LineBox(start, end, x0 / _BOX_SCALE, y0 / _BOX_SCALE, x1 / _BOX_SCALE, y1 / _BOX_SCALE)
        for start, end, x0, y0, x1, y1 in zip(*[iter(flat)] * 6, strict=True)
    )
    return ParsedPage(
        number=number,
        text=text,
        width=width,
        height=height,
        lines=lines,
        headings=tuple(Heading(*heading) for heading in headings),
        warnings=tuple(warnings),
    )


def pack_error(error: LongleafError) -> list[object]:
    return [type(error).__name__, error.detail, error.remedy]


def unpack_error(content: Any) -> LongleafError:
    """The error that the process raised, of the same type."""
    name, detail, remedy = content
    kind = getattr(core.errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, LongleafError)):
        kind = UnreadableDocument
    return kind(detail, remedy=remedy)
