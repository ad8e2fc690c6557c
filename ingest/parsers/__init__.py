"""A module per format, each with `parse(path, name) -> (DocumentInfo, pages)`.

A new format is one module, its line in `_MODULES`, and its marks in `ingest/formats.py`. Modules
are imported when first needed, so that a parsing process starts fast.

All raise `UnreadableDocument` and what is below it, some while pages are being read.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import cast

from ingest.formats import Format, detect_format
from ingest.parsed import ParsedDocument

_MODULES = {
    Format.PDF: "ingest.parsers.pdf",
    Format.DOCX: "ingest.parsers.docx",
    Format.HTML: "ingest.parsers.html",
    Format.MARKDOWN: "ingest.parsers.markdown",
    Format.TEXT: "ingest.parsers.text",
}


def preload() -> None:
    """Import the module that takes longest, for a process that is waiting anyway."""
    import_module(_MODULES[Format.PDF])


def parse(path: Path, name: str) -> ParsedDocument:
    """Read the file at `path`, uploaded as `name`, in this very process.

    For files that strangers sent use `ingest.isolation.parse_isolated`.

    Raises:
        EmptyDocument: it holds no text.
        EncryptedDocument: it needs a password.
        UnsupportedFormat: Longleaf does not read its format.
        UnreadableDocument: it is damaged.
        TooLarge: it holds more text than one document may.
    """
    parser = import_module(_MODULES[detect_format(path, name)])
    return cast(ParsedDocument, parser.parse(path, name))
