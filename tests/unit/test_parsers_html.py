from pathlib import Path

import pytest

from core.errors import EmptyDocument
from ingest.parsed import DocumentInfo, ParsedPage
from ingest.parsers import parse


def read(tmp_path: Path, content: str | bytes) -> tuple[DocumentInfo, ParsedPage]:
    path = tmp_path / "a.html"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    info, pages = parse(path, "a.html")
    (page,) = pages
    return info, page


def test_blocks_are_lines_and_spaces_collapse(tmp_path: Path) -> None:
    _, page = read(tmp_path, "<p>One\n  <b>bold</b> word.</p><p>第二段。</p>")
    assert page.text == "One bold word.\n\n第二段。\n"


def test_scripts_styles_navigation_and_hidden_parts_are_out(tmp_path: Path) -> None:
    _, page = read(
        tmp_path,
        "<body><script>window.x()</script><style>p{}</style><nav>Menu</nav>"
        "<div style='display: none'>hidden</div><p hidden>gone</p><p>Seen</p><!-- note --></body>",
    )
    assert page.text == "Seen\n"


def test_headings_have_levels_and_places(tmp_path: Path) -> None:
    _, page = read(tmp_path, "<h1>手册</h1><p>x</p><h2>Travel <em>costs</em></h2><p>y</p>")
    assert [(heading.level, heading.text) for heading in page.headings] == [(1, "手册"), (2, "Travel costs")]
    assert page.text[page.headings[1].start :].startswith("Travel costs\n")


def test_table_rows_are_lines_of_cells(tmp_path: Path) -> None:
    _, page = read(tmp_path, "<table><tr><th>City<th>Limit<tr><td>Oslo<td>140</table>")
    assert page.text == "City | Limit\nOslo | 140\n"


def test_preformatted_text_is_verbatim(tmp_path: Path) -> None:
    _, page = read(tmp_path, "<pre>a\n  b</pre>")
    assert page.text == "a\n  b\n"


def test_the_main_part_wins_where_there_is_one(tmp_path: Path) -> None:
    main = "Main text. " * 30
    _, page = read(tmp_path, f"<div>Sidebar</div><main><h2>Topic</h2><p>{main}</p></main><footer>F</footer>")
    assert page.text.startswith("Topic\n")
    assert page.headings[0].start == 0
    assert "Sidebar" not in page.text


def test_the_title_is_shown_once(tmp_path: Path) -> None:
    info, page = read(tmp_path, "<title>Annual report</title><h1>Overview</h1><p>Text</p>")
    assert info.title == "Annual report"
    assert page.text == "Annual report\n\nOverview\n\nText\n"
    assert page.text[page.headings[0].start :].startswith("Overview")


@pytest.mark.parametrize("encoding", ["gb18030", "big5", "utf-16", "utf-8-sig"])
def test_charset_is_found_declared_or_not(tmp_path: Path, encoding: str) -> None:
    body = "<html><body><p>中文文字和日文，人大法工委的第一次大會</p></body></html>"
    _, page = read(tmp_path, body.encode(encoding))
    assert "第一次大會" in page.text


def test_a_lying_declaration_is_not_believed(tmp_path: Path) -> None:
    page_source = "<meta charset=utf-8><p>员工出差住宿标准为每晚四百元，超出部分自理。</p>"
    _, page = read(tmp_path, page_source.encode("gbk"))
    assert "每晚四百元" in page.text


def test_thousands_of_nested_elements_do_not_overflow(tmp_path: Path) -> None:
    _, page = read(tmp_path, "<div>" * 5000 + "PERSIMMON" + "</div>" * 5000)
    assert page.text == "PERSIMMON\n"


def test_only_markup_is_empty(tmp_path: Path) -> None:
    with pytest.raises(EmptyDocument):
        read(tmp_path, "<html><body><img src=x><script>1</script></body></html>")
