import io
import zipfile
from pathlib import Path

import pytest

from core.errors import EmptyDocument, EncryptedDocument, UnreadableDocument, UnsupportedFormat
from ingest.formats import Format, detect_format
from tests.documents import make_docx, make_pdf, paragraph

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\x00" * 600


def make_zip(*names: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return out.getvalue()


def detect(tmp_path: Path, content: bytes, name: str) -> Format:
    path = tmp_path / "blob"
    path.write_bytes(content)
    return detect_format(path, name)


@pytest.mark.parametrize(
    ("content", "name", "expected"),
    [
        (make_pdf([["x"]]), "report.txt", Format.PDF),
        (b"junk\n" + make_pdf([["x"]]), "scan", Format.PDF),
        (make_docx(paragraph("x")), "letter.zip", Format.DOCX),
        (b"<!DOCTYPE html><p>x", "page.txt", Format.HTML),
        ("<html><p>中文".encode("utf-16"), "page", Format.HTML),
        (b"<?xml version='1.0'?><html xmlns='x'/>", "page", Format.HTML),
        (b"<p>fragment", "page.HTM", Format.HTML),
        (b"# Title", "README.md", Format.MARKDOWN),
        (b"plain", "README", Format.TEXT),
        ("中文纯文本".encode("gb18030"), "说明", Format.TEXT),
        ("中文纯文本的一个例子".encode("utf-16-le"), "说明.txt", Format.TEXT),
        (b"a,b\n1,2\n", "table.csv", Format.TEXT),
    ],
)
def test_content_decides_before_the_name(tmp_path: Path, content: bytes, name: str, expected: Format) -> None:
    assert detect(tmp_path, content, name) is expected


@pytest.mark.parametrize(
    ("content", "name", "told"),
    [
        (b"\x89PNG\r\n\x1a\n" + bytes(50), "photo.png", "a PNG picture"),
        (bytes(range(256)) * 4, "data.bin", "a binary file of unknown kind"),
        (make_zip("a.txt"), "files.zip", "a ZIP archive"),
        (make_zip("xl/workbook.xml"), "sheet.xlsx", "an Excel workbook"),
        (OLE, "old.doc", "Office 97-2003"),
        (b"{\\rtf1 text}", "note.txt", "a Rich Text document"),
        (b"<?xml version='1.0'?><data/>", "data.xml", "an XML file"),
    ],
)
def test_other_formats_are_refused_by_their_true_name(
    tmp_path: Path, content: bytes, name: str, told: str
) -> None:
    with pytest.raises(UnsupportedFormat, match=told) as caught:
        detect(tmp_path, content, name)
    assert name in caught.value.detail
    assert caught.value.remedy


def test_a_picture_called_pdf_is_told_to_be_a_picture(tmp_path: Path) -> None:
    with pytest.raises(UnreadableDocument, match="a PNG picture"):
        detect(tmp_path, b"\x89PNG\r\n\x1a\n" + bytes(50), "scan.pdf")


def test_no_bytes_are_empty(tmp_path: Path) -> None:
    with pytest.raises(EmptyDocument, match=r"none\.pdf.*0 bytes"):
        detect(tmp_path, b"", "none.pdf")


def test_an_office_file_with_a_password_is_encrypted(tmp_path: Path) -> None:
    with pytest.raises(EncryptedDocument, match="password"):
        detect(tmp_path, OLE + "EncryptedPackage".encode("utf-16-le"), "pay.docx")


def test_a_cut_archive_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(UnreadableDocument, match="damaged or truncated"):
        detect(tmp_path, make_docx(paragraph("x"))[:100], "a.docx")
