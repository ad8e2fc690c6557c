"""What parsers produce: pages of text with positions and headings.

A document's text is its pages' texts joined in order with nothing between them; each page's text
ends with a newline. Text is kept verbatim, because citations are found verbatim in it; only what
is garbage in any document is taken out (see `ingest/cleaning.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from storage.page_layout import LineBox


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading that begins at character `start`; level 1 is the outermost."""

    start: int
    level: int
    text: str


@dataclass(frozen=True, slots=True)
class ParsedPage:
    """One page, numbered from 1. Formats without pages have one.

    `width` and `height` are points, 0 where the format has none; `lines` is empty where positions
    cannot be told. Offsets count characters of this page's text. `warnings` were found while
    reading up to this page; they concern the document.
    """

    number: int
    text: str
    width: float = 0.0
    height: float = 0.0
    lines: tuple[LineBox, ...] = ()
    headings: tuple[Heading, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """What is known before the first page. `num_pages` is what the file claims."""

    media_type: str
    title: str
    num_pages: int
    warnings: tuple[str, ...] = ()


ParsedDocument = tuple[DocumentInfo, Iterator[ParsedPage]]


@dataclass(frozen=True, slots=True)
class JoinedPages:
    """A whole document's text; `headings` and `page_starts` count its characters."""

    text: str
    page_starts: tuple[int, ...]
    headings: tuple[Heading, ...]


def join_pages(pages: Iterable[ParsedPage]) -> JoinedPages:
    """The document made of `pages`, in order."""
    texts: list[str] = []
    starts: list[int] = []
    headings: list[Heading] = []
    offset = 0
    for page in pages:
        texts.append(page.text)
        starts.append(offset)
        headings += [replace(heading, start=heading.start + offset) for heading in page.headings]
        offset += len(page.text)
    return JoinedPages("".join(texts), tuple(starts), tuple(headings))
