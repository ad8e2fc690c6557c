from pathlib import Path

import pytest

from core.errors import EmptyDocument, UnreadableDocument
from ingest.parsed import DocumentInfo, ParsedPage
from ingest.parsers import parse
from tests.documents import make_docx, paragraph

CHINESE_WORD_STYLES = (
    '<w:style w:styleId="a1"><w:name w:val="标题 1"/></w:style>'
    '<w:style w:styleId="2"><w:name w:val="自定义"/><w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style>'
    '<w:style w:styleId="b2"><w:name w:val="mine"/><w:basedOn w:val="2"/></w:style>'
    '<w:style w:styleId="loop"><w:name w:val="x"/><w:basedOn w:val="loop"/></w:style>'
)


def read(tmp_path: Path, content: bytes) -> tuple[DocumentInfo, ParsedPage]:
    path = tmp_path / "a.docx"
    path.write_bytes(content)
    info, pages = parse(path, "a.docx")
    (page,) = pages
    return info, page


def test_paragraphs_are_lines(tmp_path: Path) -> None:
    _, page = read(tmp_path, make_docx(paragraph("Travel policy") + paragraph("住宿标准为每晚四百元。")))
    assert page.text == "Travel policy\n住宿标准为每晚四百元。\n"


def test_headings_are_known_by_name_outline_level_and_ancestry(tmp_path: Path) -> None:
    body = "".join(paragraph(text, style) for text, style in [("甲", "a1"), ("乙", "b2"), ("丙", "loop")])
    _, page = read(tmp_path, make_docx(body, styles=CHINESE_WORD_STYLES))
    assert [(heading.level, heading.text, heading.start) for heading in page.headings] == [
        (1, "甲", 0),
        (2, "乙", 2),
    ]


def test_table_rows_are_lines_of_cells(tmp_path: Path) -> None:
    cell = "<w:tc>{}</w:tc>"
    rows = [("City", "Limit"), ("上海", "600")]
    table = "".join(
        "<w:tr>" + "".join(cell.format(paragraph(text)) for text in row) + "</w:tr>" for row in rows
    )
    _, page = read(tmp_path, make_docx(f"<w:tbl>{table}</w:tbl>"))
    assert "City | Limit\n上海 | 600\n" in page.text


def test_tracked_insertions_are_in_and_deletions_out(tmp_path: Path) -> None:
    body = (
        "<w:p><w:r><w:t>kept </w:t></w:r><w:ins><w:r><w:t>inserted</w:t></w:r></w:ins>"
        "<w:del><w:r><w:delText>deleted</w:delText></w:r></w:del></w:p>"
    )
    _, page = read(tmp_path, make_docx(body))
    assert page.text == "kept inserted\n"


def test_hidden_text_and_field_codes_are_out(tmp_path: Path) -> None:
    body = (
        "<w:p><w:r><w:t>seen</w:t></w:r><w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r>"
        "<w:r><w:instrText>PAGE</w:instrText></w:r></w:p>"
    )
    _, page = read(tmp_path, make_docx(body))
    assert page.text == "seen\n"


def test_footnotes_follow_the_paragraph_that_refers_to_them(tmp_path: Path) -> None:
    body = '<w:p><w:r><w:t>Claim.</w:t><w:footnoteReference w:id="7"/></w:r></w:p>' + paragraph("Next.")
    footnotes = f'<w:footnote w:id="7">{paragraph("The source.")}</w:footnote>'
    _, page = read(tmp_path, make_docx(body, footnotes=footnotes))
    assert page.text == "Claim.\n[1] The source.\nNext.\n"


def test_text_boxes_are_read_once(tmp_path: Path) -> None:
    box = f"<w:txbxContent>{paragraph('Boxed')}</w:txbxContent>"
    body = (
        '<w:p><w:r><mc:AlternateContent xmlns:mc="urn:mc"><mc:Choice>'
        f"{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback></mc:AlternateContent></w:r></w:p>"
    )
    _, page = read(tmp_path, make_docx(body))
    assert page.text.count("Boxed") == 1


def test_deeply_nested_content_does_not_overflow(tmp_path: Path) -> None:
    depth = 5000
    body = "<w:sdt><w:sdtContent>" * depth + paragraph("deep") + "</w:sdtContent></w:sdt>" * depth
    try:
        _, page = read(tmp_path, make_docx(body))
    except UnreadableDocument:
        return  # libxml2's own bound on depth: a clear error is as good
    assert "deep" in page.text


def test_xml_entities_are_never_expanded_or_fetched(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("SECRET")
    prolog = (
        f'<!DOCTYPE d [<!ENTITY file SYSTEM "file://{secret}"><!ENTITY a "ha">'
        + "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10 if i else "&a;" * 10}">' for i in range(9))
        + "]>"
    )
    body = "<w:p><w:r><w:t>before &file; &a8; after</w:t></w:r></w:p>"
    try:
        _, page = read(tmp_path, make_docx(body, prolog=prolog))
    except UnreadableDocument:
        return
    assert "SECRET" not in page.text
    assert len(page.text) < 1000


def test_a_bomb_is_refused_before_it_unfolds(tmp_path: Path) -> None:
    with pytest.raises(UnreadableDocument, match="inflates to more than"):
        read(tmp_path, make_docx(paragraph("0" * 70_000_000)))


def test_a_truncated_file_is_unreadable(tmp_path: Path) -> None:
    content = make_docx(paragraph("text"))
    with pytest.raises(UnreadableDocument, match="damaged or truncated"):
        read(tmp_path, content[: len(content) // 2])


def test_no_text_is_empty(tmp_path: Path) -> None:
    with pytest.raises(EmptyDocument, match=r"a\.docx"):
        read(tmp_path, make_docx(paragraph("  ")))
