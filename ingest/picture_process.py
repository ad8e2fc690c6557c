"""The process that draws one page of a PDF for `ingest/page_picture.py` and may die of it.

Run as `python -m ingest.picture_process`; its order comes as one JSON object on standard input. It
writes a PNG to standard output, or, with exit status 2, a line that says what is wrong.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from io import BytesIO
from typing import Any

from ingest.process_limits import limit_process

UNREADABLE_STATUS = 2
MAX_HEIGHT_PER_WIDTH = 4
"""A page longer than this is drawn narrower than asked: it would take any amount of memory."""

_MARK_COLOUR = (255, 235, 90)  # multiplied with the page, so that black text stays black
_MARGIN_POINTS = 1.0

Box = Sequence[float]


def main() -> None:
    order = json.loads(sys.stdin.buffer.read())
    limit_process(memory_bytes=order["memory_bytes"], cpu_seconds=order["cpu_seconds"])
    import pypdfium2 as pdfium  # under the limits, like all that touches the file

    try:
        picture = draw_page(order["path"], order["number"], order["width"], order["marks"])
    except pdfium.PdfiumError as error:
        print(error)
        sys.exit(UNREADABLE_STATUS)
    sys.stdout.buffer.write(picture)


def draw_page(path: str, number: int, width: int, marks: Sequence[Box]) -> bytes:
    """PNG of page `number`, from 1, `width` pixels wide.

    Args:
        marks: `[x0, y0, x1, y1]` in points from the page's top left.

    Raises:
        PdfiumError: the file or the page cannot be read.
    """
    import pypdfium2 as pdfium

    document = pdfium.PdfDocument(path)
    document.init_forms()  # what is filled in is drawn, too
    page = document[number - 1]
    page_width, page_height = page.get_size()
    if page_width < 1 or page_height < 1:
        raise pdfium.PdfiumError("The page has no size.")
    pixels = width - 0.01  # pdfium rounds up
    scale = min(pixels / page_width, MAX_HEIGHT_PER_WIDTH * pixels / page_height)
    picture = page.render(scale=scale, may_draw_forms=True).to_pil().convert("RGB")
    for box in marks:
        _mark(picture, [side * scale for side in box], _MARGIN_POINTS * scale)
    output = BytesIO()
    picture.save(output, "PNG", compress_level=4)
    return output.getvalue()


def _mark(picture: Any, box: Box, margin: float) -> None:
    """Colour a rectangle like a felt pen does."""
    from PIL import Image, ImageChops

    x0, y0, x1, y1 = box
    area = (
        max(0, int(x0 - margin)),
        max(0, int(y0 - margin)),
        min(picture.width, round(x1 + margin)),
        min(picture.height, round(y1 + margin)),
    )
    if area[0] >= area[2] or area[1] >= area[3]:
        return
    under = picture.crop(area)
    picture.paste(ImageChops.multiply(under, Image.new("RGB", under.size, _MARK_COLOUR)), area[:2])


if __name__ == "__main__":
    main()
