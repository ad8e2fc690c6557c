"""DOCX straight from its XML: python-docx loses footnotes, text boxes and tracked insertions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lxml import etree

from core.errors import UnreadableDocument
from ingest.cleaning import clean_text, clean_title
from ingest.parsed import DocumentInfo, Heading, ParsedDocument, ParsedPage
from ingest.parsers.docx_styles import HeadingStyles, outline_level
from ingest.parsers.limits import no_text
from ingest.parsers.ooxml import Package, attribute, child, children, local_name

_MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
# What Word shows of none of these: deleted text, field codes, property bags, and the twin that
# older programs read in place of a text box.
_UNSEEN = {"del", "moveFrom", "delText", "instrText", "pPr", "rPr", "Fallback", "rt", "sectPr", "tblPr"}
_CHARACTERS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "\u2011", "softHyphen": "\u00ad"}
_NOTE_REFERENCES = {"footnoteReference": "footnotes", "endnoteReference": "endnotes"}


def parse(path: Path, name: str) -> ParsedDocument:
    """One page: paragraphs, tables as rows of cells, notes after the block that refers to them.

    Tracked insertions are in, deletions out; headers and footers, which repeat on every sheet, are
    out as well.

    Raises:
        UnreadableDocument: a damaged package, or one that inflates beyond bounds.
        EmptyDocument: no text in it.
    """
    package = Package(path, name)
    try:
        part = package.main_part()
        root = package.find_xml(part)
        body = child(root, "body")
        if body is None:
            raise UnreadableDocument(
                f"{name!r} is not a Word document: it has no text part.", remedy="Upload another version."
            )
        builder = _PageBuilder(
            HeadingStyles(package.related(part, "styles")),
            {kind: _read_notes(package.related(part, kind)) for kind in _NOTE_REFERENCES.values()},
        )
        builder.add_blocks(body)
        title = clean_title(_core_title(package) or builder.title)
    finally:
        package.close()
    page = builder.page()
    if not page.text.strip():
        raise no_text(name, "pictures at most")
    return DocumentInfo(_MEDIA_TYPE, title, 1), iter((page,))


def _core_title(package: Package) -> str:
    properties = package.find_xml("docProps/core.xml")
    title = child(properties, "title")
    return (title.text or "") if title is not None else ""


def _read_notes(root: etree._Element | None) -> dict[str, etree._Element]:
    """Notes by id."""
    if root is None:
        return {}
    return {attribute(note, "id"): note for note in root if not attribute(note, "type")}


class _PageBuilder:
    """Grows the page's text block by block."""

    def __init__(self, styles: HeadingStyles, notes: dict[str, dict[str, etree._Element]]) -> None:
        self.title = ""
        self._styles = styles
        self._notes = notes
        self._parts: list[str] = []
        self._length = 0
        self._headings: list[Heading] = []
        self._num_notes = 0

    def page(self) -> ParsedPage:
        text = "".join(self._parts) or "\n"
        return ParsedPage(number=1, text=text, headings=tuple(self._headings))

    def add_blocks(self, container: etree._Element) -> None:
        """Paragraphs and tables under `container`, at whatever depth of content controls.

        An own stack instead of recursion: documents may nest deeper than Python calls.
        """
        stack = [iter(container)]
        while stack:
            block = next(stack[-1], None)
            if block is None:
                stack.pop()
                continue
            kind = local_name(block)
            if kind == "p":
                self._add_paragraph(block)
            elif kind == "tbl":
                self._add_table(block)
            elif kind not in _UNSEEN:
                stack.append(iter(block))

    def _add_paragraph(self, paragraph: etree._Element) -> None:
        inline = _Inline(paragraph)
        text = inline.text.strip("\n")
        if text.strip():
            self._note_heading(paragraph, text)
        self._add_line(text)
        self._add_asides(inline)

    def _note_heading(self, paragraph: etree._Element, text: str) -> None:
        properties = child(paragraph, "pPr")
        style = attribute(child(properties, "pStyle"), "val")
        own_level = outline_level(properties)
        level = self._styles.level(style) if own_level is None or own_level > 8 else own_level + 1
        if level is not None:
            self._headings.append(Heading(self._length, level, clean_title(text)))
        elif self._styles.is_title(style) and not self.title:
            self.title = text

    def _add_table(self, table: etree._Element) -> None:
        """A line per row, cells parted by ` | `."""
        asides = []
        for row in _rows(table):
            cells = []
            for cell in _cells(row):
                inline = _Inline(cell)
                cells.append(" ".join(inline.text.split()))
                asides.append(inline)
            if any(cells):
                self._add_line(" | ".join(cells))
        for inline in asides:
            self._add_asides(inline)
        self._add_line("")

    def _add_asides(self, inline: _Inline) -> None:
        """Text boxes and notes that the block refers to."""
        for box in inline.text_boxes:
            self.add_blocks(box)
        for kind, note_id in inline.note_references:
            note = self._notes[kind].pop(note_id, None)
            if note is not None:
                self._num_notes += 1
                self._add_line(f"[{self._num_notes}] {' '.join(_Inline(note).text.split())}")

    def _add_line(self, text: str) -> None:
        line = clean_text(text).replace("\f", "\n") + "\n"
        if not line.strip() and (not self._parts or not self._parts[-1].strip()):
            return  # authors space pages out by empty paragraphs
        self._parts.append(line)
        self._length += len(line)


def _rows(table: etree._Element) -> Iterator[etree._Element]:
    for element in table:
        if local_name(element) == "tr":
            yield element
        elif local_name(element) in {"sdt", "ins"}:
            yield from _rows(
                child(element, "sdtContent") if child(element, "sdtContent") is not None else element
            )


def _cells(row: etree._Element) -> Iterator[etree._Element]:
    for element in row:
        if local_name(element) == "tc":
            yield element
        elif local_name(element) == "sdt":
            content = child(element, "sdtContent")
            yield from children(content, "tc")


class _Inline:
    """The running text below a block, in order, with what hangs off it."""

    def __init__(self, block: etree._Element) -> None:
        self.text_boxes: list[etree._Element] = []
        self.note_references: list[tuple[str, str]] = []
        parts: list[str] = []
        walk = etree.iterwalk(block, events=("start", "end"))
        for event, element in walk:
            kind = local_name(element)
            if event == "end":
                if kind in {"p", "tr"}:
                    parts.append("\n")
                elif kind == "tc":
                    parts.append(" ")
            elif kind in _UNSEEN or (kind == "r" and _is_hidden(element)):
                walk.skip_subtree()
            elif kind == "txbxContent":
                self.text_boxes.append(element)
                walk.skip_subtree()
            elif kind == "t":
                parts.append(element.text or "")
            elif kind in _CHARACTERS:
                parts.append(_CHARACTERS[kind])
            elif kind in _NOTE_REFERENCES:
                self.note_references.append((_NOTE_REFERENCES[kind], attribute(element, "id")))
        self.text = "".join(parts)


def _is_hidden(run: etree._Element) -> bool:
    vanish = child(child(run, "rPr"), "vanish")
    return vanish is not None and attribute(vanish, "val") not in {"0", "false", "off"}
