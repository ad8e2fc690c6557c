"""Values filled into a PDF's form fields, which are not part of its pages' text."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import byref, c_ushort

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from ingest.cleaning import clean_text
from storage.page_layout import LineBox

_FILLED_TYPES = {
    pdfium_c.FPDF_FORMFIELD_TEXTFIELD,
    pdfium_c.FPDF_FORMFIELD_COMBOBOX,
    pdfium_c.FPDF_FORMFIELD_LISTBOX,
}


class FormReader:
    """Reads form fields of a document; costs nothing where there is no form."""

    def __init__(self, document: pdfium.PdfDocument) -> None:
        self._form = None
        if document.get_formtype() != pdfium_c.FORMTYPE_NONE:
            document.init_forms()
            self._form = document.formenv

    def append_fields(
        self, page: pdfium.PdfPage, text: str, lines: tuple[LineBox, ...]
    ) -> tuple[str, tuple[LineBox, ...]]:
        """Text and boxes with a line `field name: value` for each filled field."""
        if self._form is None:
            return text, lines
        values = list(self._filled_values(page))
        if not values:
            return text, lines
        _, height = page.get_size()
        if not text.strip():
            text = ""
        boxes = list(lines)
        for line, rectangle in values:
            x0, x1 = rectangle.left, rectangle.right
            y0, y1 = height - rectangle.top, height - rectangle.bottom
            boxes.append(LineBox(len(text), len(text) + len(line), x0, y0, x1, y1))
            text += line + "\n"
        return text, tuple(boxes)

    def _filled_values(self, page: pdfium.PdfPage) -> Iterator[tuple[str, pdfium_c.FS_RECTF]]:
        for i in range(pdfium_c.FPDFPage_GetAnnotCount(page)):
            annotation = pdfium_c.FPDFPage_GetAnnot(page, i)
            if not annotation:
                continue
            try:
                if pdfium_c.FPDFAnnot_GetFormFieldType(self._form, annotation) not in _FILLED_TYPES:
                    continue
                value = self._read(pdfium_c.FPDFAnnot_GetFormFieldValue, annotation)
                if not value.strip():
                    continue
                label = self._read(pdfium_c.FPDFAnnot_GetFormFieldName, annotation)
                rectangle = pdfium_c.FS_RECTF()
                pdfium_c.FPDFAnnot_GetRect(annotation, byref(rectangle))
                yield f"{label}: {value}" if label else value, rectangle
            finally:
                pdfium_c.FPDFPage_CloseAnnot(annotation)

    def _read(self, function, annotation) -> str:  # type: ignore[no-untyped-def]
        num_bytes = function(self._form, annotation, None, 0)
        if num_bytes <= 2:
            return ""
        buffer = (c_ushort * (num_bytes // 2))()
        function(self._form, annotation, buffer, num_bytes)
        text = bytes(buffer).decode("utf-16-le", errors="replace").rstrip("\x00")
        return " ".join(clean_text(text).split())
