"""Line boxes as compact bytes, for `storage.models.Page.layout`."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence

from core.errors import StoreCorrupt
from ingest.parsed import LineBox


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
