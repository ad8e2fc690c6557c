"""HTML as a reader sees it: without scripts and navigation, tables as rows of cells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from lxml import etree

from ingest.cleaning import clean_text, clean_title
from ingest.encoding_detection import decode_text
from ingest.parsed import DocumentInfo, Heading, ParsedDocument, ParsedPage
from ingest.parsers.limits import no_text, read_bounded

_MEDIA_TYPE = "text/html"
_DECLARED_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([\w-]+)", re.IGNORECASE)
_XML_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_UNSEEN = {
    "script", "style", "noscript", "template", "nav", "iframe", "object", "svg", "canvas",
    "select", "button", "audio", "video",
}  # fmt: skip
_BLOCKS = {
    "address", "article", "aside", "blockquote", "body", "center", "dd", "details", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header",
    "hr", "li", "main", "ol", "p", "pre", "section", "summary", "table", "tbody", "tfoot", "thead", "tr",
    "ul", "caption",
}  # fmt: skip
_PARAGRAPHS = {"p", "h1", "h2", "h3", "h4", "h5", "h6", "table", "blockquote", "pre", "ul", "ol", "dl"}
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_SPACES = re.compile(r"[ \t\n\r\f\xa0]+")
_MIN_MAIN_CHARACTERS = 200


def parse(path: Path, name: str) -> ParsedDocument:
    """One page: the title, unless the text shows it anyway, then the text.

    Where the file marks its main part (`<main>`), the text is that part.

    Raises:
        EmptyDocument: nothing but mark-up.
        TooLarge: see `limits.MAX_TEXT_BYTES`.
    """
    data = read_bounded(path, name)
    declared = _DECLARED_CHARSET.search(data[:4096])
    decoded = decode_text(data, declared=declared.group(1).decode("ascii", "ignore") if declared else "")
    rendered = _render(clean_text(decoded.text))
    page = _with_title(rendered.main_page(), rendered.title)
    if not page.text.strip():
        raise no_text(name, "nothing but mark-up")
    warnings = (decoded.warning,) if decoded.warning else ()
    title = rendered.title or (page.headings[0].text if page.headings else "")
    return DocumentInfo(_MEDIA_TYPE, title, 1, warnings), iter((page,))


def _render(text: str) -> _Renderer:
    renderer = _Renderer()
    # lxml takes bytes, and believes what a page declares unless told otherwise. Events instead of
    # a tree, because a tree's depth is limited and hostile pages nest thousands of elements.
    parser = etree.HTMLParser(target=renderer, encoding="utf-8", huge_tree=True)
    etree.fromstring(_XML_DECLARATION.sub("", text).encode("utf-8") or b"<html/>", parser)
    return renderer


def _with_title(page: ParsedPage, title: str) -> ParsedPage:
    if not title or title in page.text:
        return page
    shift = len(title) + 2
    headings = tuple(replace(heading, start=heading.start + shift) for heading in page.headings)
    return replace(page, text=f"{title}\n\n{page.text}", headings=headings)


def _is_unseen(tag: str, attributes: Mapping[str, str]) -> bool:
    return (
        tag in _UNSEEN
        or "hidden" in attributes
        or attributes.get("role") == "navigation"
        or _HIDDEN_STYLE.search(attributes.get("style", "")) is not None
    )


class _Renderer:
    """Collects text from parser events, with white space collapsed as browsers do."""

    def __init__(self) -> None:
        self.title = ""
        self._parts: list[str] = []
        self._length = 0
        self._line_is_empty = True
        self._pending_space = False
        self._pending_breaks = 0
        self._num_pre = 0
        self._depth = 0
        self._unseen_depth = 0  # of the outermost unseen element, 0 outside
        self._in_title = False
        self._in_heading = False
        self._heading_start: int | None = None
        self._heading_part = 0
        self._headings: list[Heading] = []
        self._mains: list[tuple[int, int]] = []
        self._main_start = 0

    def main_page(self) -> ParsedPage:
        """What `<main>` holds where there is one of any length, else everything."""
        text = "".join(self._parts)
        start, end = 0, len(text)
        if len(self._mains) == 1 and self._mains[0][1] - self._mains[0][0] >= _MIN_MAIN_CHARACTERS:
            start, end = self._mains[0]
        start += len(text[start:end]) - len(text[start:end].lstrip("\n"))
        headings = tuple(
            replace(heading, start=heading.start - start)
            for heading in self._headings
            if start <= heading.start < end
        )
        return ParsedPage(number=1, text=text[start:end].rstrip("\n") + "\n", headings=headings)

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        if self._unseen_depth:
            return
        if _is_unseen(tag, attributes):
            self._unseen_depth = self._depth
            return
        if tag in _BLOCKS:
            self._break(2 if tag in _PARAGRAPHS else 1)
        if tag == "br":
            self._pending_breaks += 1
        elif tag in {"td", "th"} and not self._line_is_empty and not self._pending_breaks:
            self._put(" | ")
            self._pending_space = False
        elif tag == "pre":
            self._num_pre += 1
        elif tag == "title":
            self._in_title = True
        elif tag == "main":
            self._main_start = self._length
        if tag in _HEADINGS:
            self._in_heading = True
            self._heading_start = None

    def end(self, tag: str) -> None:
        self._depth -= 1
        if self._unseen_depth:
            if self._depth < self._unseen_depth:
                self._unseen_depth = 0
            return
        if tag in _HEADINGS:
            self._end_heading(_HEADINGS[tag])
        elif tag == "pre":
            self._num_pre = max(0, self._num_pre - 1)
        elif tag == "title":
            self._in_title = False
            self.title = clean_title(self.title)
        elif tag == "main":
            self._mains.append((self._main_start, self._length))
        if tag in _BLOCKS:
            self._break(2 if tag in _PARAGRAPHS else 1)

    def data(self, text: str) -> None:
        if self._unseen_depth:
            return
        if self._in_title:
            self.title += text
        elif self._num_pre:
            self._flush(text)
        else:
            self._add_collapsed(_SPACES.sub(" ", text))

    def comment(self, text: str) -> None:
        """Comments are not shown."""

    def close(self) -> None:
        """Called by the parser at the end."""

    def _end_heading(self, level: int) -> None:
        self._in_heading = False
        text = clean_title("".join(self._parts[self._heading_part :]))
        if self._heading_start is not None and text:
            self._headings.append(Heading(self._heading_start, level, text))

    def _break(self, num_newlines: int) -> None:
        self._pending_breaks = max(self._pending_breaks, num_newlines)

    def _add_collapsed(self, text: str) -> None:
        if text.startswith(" "):
            self._pending_space = True
        if text.strip(" "):
            self._flush(text.strip(" "))
            self._pending_space = text.endswith(" ")

    def _flush(self, text: str) -> None:
        """Put what is pending, then `text`."""
        if self._pending_breaks and self._parts:
            self._put("\n" * min(self._pending_breaks, 2))
        elif self._pending_space and not self._line_is_empty:
            self._put(" ")
        self._pending_breaks = 0
        self._pending_space = False
        if self._in_heading and self._heading_start is None:
            self._heading_start = self._length
            self._heading_part = len(self._parts)
        self._put(text)

    def _put(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)
        self._line_is_empty = text.endswith("\n")
