"""Small documents made on the spot, for tests of parsers and of what uses them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"


@dataclass(frozen=True, slots=True)
class Bookmark:
    title: str
    page: int  # from 1
    level: int = 1


def make_pdf(
    pages: Sequence[Sequence[str]],
    *,
    bookmarks: Sequence[Bookmark] = (),
    title: str = "",
    rotation: int = 0,
) -> bytes:
    """A4 pages with a line of text every 20 points, the first 100 from the top, 72 from the left.

    Chinese is drawn with a font that is not embedded, as many real files do.
    """
    objects: list[bytes] = [b""] * 4
    page_numbers = []
    for lines in pages:
        content = b"\n".join(_draw(line, 742 - 20 * i) for i, line in enumerate(lines))
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Rotate %d /Contents %d 0 R"
            b" /Resources << /Font << /F1 3 0 R /F2 4 0 R >> >> >>" % (rotation, len(objects))
        )
        page_numbers.append(len(objects))
    outline = _add_bookmarks(objects, bookmarks, page_numbers)
    kids = b" ".join(b"%d 0 R" % number for number in page_numbers)
    objects[0] = b"<< /Type /Catalog /Pages 2 0 R %s >>" % outline
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(pages))
    objects[2] = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    objects[3] = (
        b"<< /Type /Font /Subtype /Type0 /BaseFont /STSong-Light /Encoding /UniGB-UCS2-H"
        b" /DescendantFonts [<< /Type /Font /Subtype /CIDFontType0 /BaseFont /STSong-Light"
        b" /CIDSystemInfo << /Registry (Adobe) /Ordering (GB1) /Supplement 4 >> /DW 1000 >>] >>"
    )
    objects.append(b"<< /Title %s >>" % _pdf_string(title))
    return _write_pdf(objects)


def _draw(line: str, y: int) -> bytes:
    if line.isascii():
        font, shown = b"F1", b"(%s)" % line.encode("ascii").replace(b"(", b"\\(").replace(b")", b"\\)")
    else:
        font, shown = b"F2", b"<%s>" % line.encode("utf-16-be").hex().encode("ascii")
    return b"BT /%s 12 Tf 72 %d Td %s Tj ET" % (font, y, shown)


def _pdf_string(text: str) -> bytes:
    return b"<FEFF%s>" % text.encode("utf-16-be").hex().encode("ascii")


def _add_bookmarks(objects: list[bytes], bookmarks: Sequence[Bookmark], pages: Sequence[int]) -> bytes:
    """Append outline objects; the catalog's entry for them. Levels nest as they come."""
    if not bookmarks:
        return b""
    root = len(objects) + 1
    parents = [root]
    children: dict[int, list[int]] = {root: []}
    parent_of = {}
    for i, bookmark in enumerate(bookmarks):
        number = root + 1 + i
        parents = parents[: bookmark.level]
        parent_of[number] = parents[-1]
        children[parents[-1]].append(number)
        children[number] = []
        parents.append(number)
    objects.append(b"<< /Type /Outlines %s >>" % _family(children[root]))
    for i, bookmark in enumerate(bookmarks):
        number = root + 1 + i
        siblings = children[parent_of[number]]
        place = siblings.index(number)
        following = b"/Next %d 0 R" % siblings[place + 1] if place + 1 < len(siblings) else b""
        objects.append(
            b"<< /Title %s /Parent %d 0 R %s %s /Dest [%d 0 R /XYZ 0 842 0] >>"
            % (
                _pdf_string(bookmark.title),
                parent_of[number],
                following,
                _family(children[number]),
                pages[bookmark.page - 1],
            )
        )
    return b"/Outlines %d 0 R" % root


def _family(children: Sequence[int]) -> bytes:
    if not children:
        return b""
    return b"/First %d 0 R /Last %d 0 R /Count %d" % (children[0], children[-1], len(children))


def _write_pdf(objects: Sequence[bytes]) -> bytes:
    out = io.BytesIO()
    out.write(b"%PDF-1.7\n")
    offsets = []
    for number, content in enumerate(objects, start=1):
        offsets.append(out.tell())
        out.write(b"%d 0 obj\n%s\nendobj\n" % (number, content))
    start = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    out.writelines(b"%010d 00000 n \n" % offset for offset in offsets)
    out.write(
        b"trailer\n<< /Size %d /Root 1 0 R /Info %d 0 R >>\nstartxref\n%d\n%%%%EOF\n"
        % (len(objects) + 1, len(objects), start)
    )
    return out.getvalue()


def make_docx(body: str, *, styles: str = "", footnotes: str = "", prolog: str = "") -> bytes:
    """A Word file around the XML of a body; `w:` is bound, so is `r:`."""
    main = (
        f'{prolog}<w:document xmlns:w="{_WORD}" xmlns:r="{_RELATIONS}"><w:body>{body}</w:body></w:document>'
    )
    parts = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}"><Relationship Id="r1" Type="{_RELATIONS}/officeDocument"'
        ' Target="word/document.xml"/></Relationships>',
        "word/_rels/document.xml.rels": f'<Relationships xmlns="{_PACKAGE}">'
        f'<Relationship Id="r1" Type="{_RELATIONS}/styles" Target="styles.xml"/>'
        f'<Relationship Id="r2" Type="{_RELATIONS}/footnotes" Target="footnotes.xml"/></Relationships>',
        "word/document.xml": main,
        "word/styles.xml": f'<w:styles xmlns:w="{_WORD}">{styles}</w:styles>',
        "word/footnotes.xml": f'<w:footnotes xmlns:w="{_WORD}">{footnotes}</w:footnotes>',
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return out.getvalue()


def paragraph(text: str, style: str = "") -> str:
    """A Word paragraph."""
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{properties}<w:r><w:t xml:space='preserve'>{text}</w:t></w:r></w:p>"
