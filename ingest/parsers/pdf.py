"""PDF through pdfium: text in reading order as the file draws it, a box for each line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from core.errors import EmptyDocument, EncryptedDocument, UnreadableDocument
from ingest.cleaning import clean_title
from ingest.parsed import DocumentInfo, ParsedDocument, ParsedPage
from ingest.parsers.limits import MAX_UNREADABLE_RUN
from ingest.parsers.pdf_forms import FormReader
from ingest.parsers.pdf_lines import extract_lines
from ingest.parsers.pdf_outline import Outline

_MEDIA_TYPE = "application/pdf"
_GARBLED_SHARE = 0.2
# Replacement characters and the private use area.
_MEANINGLESS = re.compile("[\ufffd\ue000-\uf8ff]")
_MEANINGLESS_TITLES = {"untitled", "title", "document", "无标题"}


def parse(path: Path, name: str) -> ParsedDocument:
    """A page per page of the PDF; a textless page has the text `\\n`.

    Raises:
        EncryptedDocument: it needs a password.
        UnreadableDocument: it is damaged beyond reading, or not a PDF.
        EmptyDocument: no page has text; raised after the last page.
    """
    document = _open(path, name)
    info = DocumentInfo(_MEDIA_TYPE, _title(document), len(document))
    return info, _read_pages(document, name)


def _open(path: Path, name: str) -> pdfium.PdfDocument:
    try:
        document = pdfium.PdfDocument(path)
    except pdfium.PdfiumError as error:
        if getattr(error, "err_code", None) in {pdfium_c.FPDF_ERR_PASSWORD, pdfium_c.FPDF_ERR_SECURITY}:
            raise EncryptedDocument(
                f"{name!r} is protected by a password.", remedy="Save it without the password."
            ) from error
        raise UnreadableDocument(
            f"{name!r} is a damaged or truncated PDF.", remedy="Upload the whole file again."
        ) from error
    if len(document) < 1:
        raise UnreadableDocument(f"{name!r} is a PDF without pages.", remedy="Upload another version.")
    return document


def _title(document: pdfium.PdfDocument) -> str:
    title = clean_title(document.get_metadata_value("Title")).removeprefix("Microsoft Word - ")
    return "" if title.lower() in _MEANINGLESS_TITLES else title


@dataclass(slots=True)
class _Findings:
    """Page numbers with something to warn of."""

    num_with_text: int = 0
    unreadable: list[int] = field(default_factory=list)
    textless: list[int] = field(default_factory=list)
    pictured: list[int] = field(default_factory=list)
    garbled: list[int] = field(default_factory=list)

    def warnings(self) -> tuple[str, ...]:
        blank = [number for number in self.textless if number not in self.pictured]
        groups = (
            ("The file is damaged; what could not be read is", self.unreadable),
            ("There are pictures but no text (scanned?), so nothing can be found, on", self.pictured),
            ("There is no text on", blank),
            ("The text layer seems unreadable (broken fonts); do not rely on", self.garbled),
        )
        return tuple(f"{what} {_name_pages(numbers)}." for what, numbers in groups if numbers)


def _name_pages(numbers: list[int]) -> str:
    """`[1, 2, 3, 7]` as `pages 1-3, 7`; at most twenty spans."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    shown = [f"{first}-{last}" if last > first else str(first) for first, last in spans[:20]]
    noun = "page" if len(numbers) == 1 else "pages"
    return f"{noun} {', '.join(shown)}" + (" and more" if len(spans) > 20 else "")


def _read_pages(document: pdfium.PdfDocument, name: str) -> Iterator[ParsedPage]:
    """All pages in order; the last carries the warnings, so each is held until the next is read."""
    findings = _Findings()
    outline = Outline(document)
    forms = FormReader(document)
    held: ParsedPage | None = None
    try:
        for index in range(len(document)):
            page = _read_page(document, index, outline, forms, findings)
            if held is not None:
                yield held
            held = page
            if _gave_out(findings, index + 1):
                break
    finally:
        document.close()
    if not findings.num_with_text:
        raise _explain_no_text(name, findings)
    if held is not None:
        yield replace(held, warnings=findings.warnings())


def _gave_out(findings: _Findings, number: int) -> bool:
    """Whether the last pages were all unreadable: page counts of a billion are a known attack."""
    run = findings.unreadable[-MAX_UNREADABLE_RUN:]
    return len(run) == MAX_UNREADABLE_RUN and run[0] == number - MAX_UNREADABLE_RUN + 1


def _explain_no_text(name: str, findings: _Findings) -> UnreadableDocument:
    if findings.pictured:
        return EmptyDocument(
            f"{name!r} has no text layer: it seems to be scanned, and OCR is not enabled.",
            remedy="Run it through an OCR program and upload the result.",
        )
    if findings.textless:
        return EmptyDocument(f"{name!r} holds no text: its pages are blank.", remedy="Leave it out.")
    return UnreadableDocument(
        f"{name!r} is damaged: none of its pages can be read.", remedy="Upload the whole file again."
    )


def _read_page(
    document: pdfium.PdfDocument, index: int, outline: Outline, forms: FormReader, findings: _Findings
) -> ParsedPage:
    number = index + 1
    try:
        page = document[index]
        text_page = page.get_textpage()
    except pdfium.PdfiumError:
        findings.unreadable.append(number)
        return ParsedPage(number=number, text="\n")
    try:
        text, lines = extract_lines(page, text_page)
        text, lines = forms.append_fields(page, text, lines)
        width, height = page.get_size()
        _note(findings, page, number, text)
    finally:
        text_page.close()
        page.close()
    headings = outline.headings_of(index, text, lines, height)
    return ParsedPage(number, text, width, height, lines, headings)


def _note(findings: _Findings, page: pdfium.PdfPage, number: int, text: str) -> None:
    visible = "".join(text.split())
    if visible:
        findings.num_with_text += 1
        if _is_garbled(visible):
            findings.garbled.append(number)
        return
    findings.textless.append(number)
    if any(True for _ in page.get_objects(filter=[pdfium_c.FPDF_PAGEOBJ_IMAGE], max_depth=3)):
        findings.pictured.append(number)


def _is_garbled(visible: str) -> bool:
    return len(_MEANINGLESS.findall(visible)) > _GARBLED_SHARE * len(visible)
