"""What a file is: by its content first, by its name second."""

from __future__ import annotations

import mmap
import zipfile
from enum import StrEnum
from pathlib import Path, PurePosixPath

from core.errors import EmptyDocument, EncryptedDocument, UnreadableDocument, UnsupportedFormat
from ingest.encoding_detection import looks_like_text

READABLE = "PDF, DOCX, HTML, Markdown and plain text"
_HEAD_BYTES = 64 * 1024
_PDF_HEADER_WITHIN = 1024  # Acrobat's own tolerance for junk before %PDF
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_SAVE_AS_DOCX = "Open it in Word or LibreOffice and save it as .docx or PDF."


class Format(StrEnum):
    """Formats that Longleaf reads; the value is the media type."""

    PDF = "application/pdf"
    DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    HTML = "text/html"
    MARKDOWN = "text/markdown"
    TEXT = "text/plain"


_FOREIGN_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"II*\x00", "a TIFF picture"),
    (b"MM\x00*", "a TIFF picture"),
    (b"BM", "a BMP picture"),
    (b"RIFF", "a media file"),
    (b"ID3", "an MP3 recording"),
    (b"OggS", "an Ogg recording"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\x00", "an xz archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"Rar!", "a RAR archive"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"PAR1", "a Parquet file"),
    (b"AT&TFORM", "a DjVu document"),
)
_FOREIGN_TEXT_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"{\\rtf", "a Rich Text document"),
    (b"%!PS", "a PostScript document"),
)
_FOREIGN_SUFFIXES = {
    ".eml": "a mail",
    ".mht": "a web archive",
    ".mhtml": "a web archive",
    ".ipynb": "a Jupyter notebook",
    ".svg": "a drawing",
    ".rtf": "a Rich Text document",
}
_ZIP_CONTENTS = (("xl/", "an Excel workbook"), ("ppt/", "a PowerPoint presentation"))
_ZIP_MIMETYPES = (("opendocument", "an OpenDocument file"), ("epub", "an EPUB book"))
_MARK_AND_SPACE = b"\xef\xbb\xbf\xff\xfe \t\r\n"  # byte order marks of UTF-8 and UTF-16, white space
_HTML_SUFFIXES = {".html", ".htm", ".xhtml"}
_MARKDOWN_SUFFIXES = {".md", ".markdown", ".mkd", ".mdown"}


def detect_format(path: Path, name: str) -> Format:
    """The format of the file at `path`, uploaded as `name`.

    Raises:
        EmptyDocument: the file has no bytes.
        EncryptedDocument: an Office file with a password.
        UnreadableDocument: the name promises a format that the bytes are not, or are damaged.
        UnsupportedFormat: Longleaf does not read it; the message says what it is.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if not head:
        raise EmptyDocument(f"{name!r} is empty: it has 0 bytes.", remedy="Upload the whole file again.")
    if b"%PDF-" in head[:_PDF_HEADER_WITHIN]:
        return Format.PDF
    if head.startswith(b"PK"):
        return _detect_zip(path, name)
    if head.startswith(_OLE):
        raise _describe_ole(path, name)
    return _detect_text(head, name)


def _suffix(name: str) -> str:
    return PurePosixPath(name).suffix.lower()


def _unsupported(name: str, what: str, remedy: str = "") -> UnsupportedFormat:
    return UnsupportedFormat(
        f"{name!r} is {what}, which Longleaf does not read.",
        remedy=remedy or f"Convert it to one of {READABLE}.",
    )


def _detect_zip(path: Path, name: str) -> Format:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            mimetype = archive.read("mimetype")[:200].decode("latin-1") if "mimetype" in names else ""
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError, OSError) as error:
        raise UnreadableDocument(
            f"{name!r} is a damaged or truncated archive.", remedy="Upload the whole file again."
        ) from error
    for part, what in _ZIP_MIMETYPES:
        if part in mimetype:
            raise _unsupported(name, what)
    for folder, what in _ZIP_CONTENTS:
        if any(member.startswith(folder) for member in names):
            raise _unsupported(name, what)
    if any(member.lower().startswith("word/") for member in names) or _suffix(name) == ".docx":
        return Format.DOCX
    raise _unsupported(name, "a ZIP archive", "Unpack it and upload the files inside.")


def _describe_ole(path: Path, name: str) -> UnreadableDocument:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        is_encrypted = content.find("EncryptedPackage".encode("utf-16-le")) >= 0
    if is_encrypted:
        return EncryptedDocument(
            f"{name!r} is protected by a password.", remedy="Save it without the password."
        )
    return _unsupported(name, "a file of Office 97-2003 or Outlook", _SAVE_AS_DOCX)


def _detect_text(head: bytes, name: str) -> Format:
    suffix = _suffix(name)
    what = _describe_foreign(head, suffix)
    if suffix in {".pdf", ".docx"}:
        raise UnreadableDocument(
            f"{name!r} is not what its name says: it is {what or 'plain text, or damaged'}.",
            remedy="Upload the right file, or give it its true name.",
        )
    if what:
        raise _unsupported(name, what)
    if suffix in _HTML_SUFFIXES or _looks_like_html(head):
        return Format.HTML
    if suffix in {".xml", ".fb2"} or head.lstrip(_MARK_AND_SPACE).startswith(b"<?xml"):
        raise _unsupported(name, "an XML file")
    return Format.MARKDOWN if suffix in _MARKDOWN_SUFFIXES else Format.TEXT


def _describe_foreign(head: bytes, suffix: str) -> str:
    """What a file is that Longleaf does not read; empty for text."""
    for magic, what in _FOREIGN_TEXT_MAGIC:
        if head.startswith(magic):
            return what
    if not looks_like_text(head):
        return _describe_binary(head)
    return _FOREIGN_SUFFIXES.get(suffix, "")


def _describe_binary(head: bytes) -> str:
    for magic, what in _FOREIGN_MAGIC:
        if head.startswith(magic):
            return what
    if head[4:8] == b"ftyp":
        return "a video"
    return "a binary file of unknown kind"


def _looks_like_html(head: bytes) -> bool:
    start = head[:2048].replace(b"\x00", b"").lstrip(_MARK_AND_SPACE).lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return True
    return start.startswith((b"<?xml", b"<!--", b"<!doctype")) and b"<html" in start
