from pathlib import Path

import pytest

from core.errors import EmptyDocument, EncryptedDocument, UnreadableDocument
from ingest.parsed import DocumentInfo, ParsedPage
from ingest.parsers import parse
from tests.documents import Bookmark, make_pdf

SAMPLES = Path(__file__).parent.parent / "samples"


def read(path: Path, content: bytes) -> tuple[DocumentInfo, list[ParsedPage]]:
    path.write_bytes(content)
    info, pages = parse(path, path.name)
    return info, list(pages)


def test_pages_keep_their_numbers_text_and_size(tmp_path: Path) -> None:
    info, pages = read(
        tmp_path / "a.pdf", make_pdf([["Leave policy", "Ten days."], ["住宿标准为每晚四百元。"]])
    )
    assert info.num_pages == 2
    assert [(page.number, page.text) for page in pages] == [
        (1, "Leave policy\nTen days.\n"),
        (2, "住宿标准为每晚四百元。\n"),
    ]
    assert (pages[0].width, pages[0].height) == (595, 842)


def test_each_line_has_a_box_from_the_top_left(tmp_path: Path) -> None:
    _, pages = read(tmp_path / "a.pdf", make_pdf([["Leave policy", "Ten days."]]))
    first, second = pages[0].lines
    assert pages[0].text[second.start : second.end] == "Ten days."
    assert first.x0 == pytest.approx(72, abs=3)
    assert first.y0 < 100 < first.y1 + 1
    assert second.y0 - first.y0 == pytest.approx(20, abs=3)


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_boxes_stay_on_the_page_however_it_is_turned(tmp_path: Path, rotation: int) -> None:
    _, pages = read(tmp_path / "a.pdf", make_pdf([["Turned page"]], rotation=rotation))
    page = pages[0]
    (line,) = page.lines
    assert 0 <= line.x0 < line.x1 <= page.width
    assert 0 <= line.y0 < line.y1 <= page.height
    is_upright = rotation in {0, 180}
    assert (line.x1 - line.x0 > line.y1 - line.y0) == is_upright


def test_bookmarks_become_headings_at_the_lines_that_show_them(tmp_path: Path) -> None:
    content = make_pdf(
        [["Intro text", "1 Travel", "2 Hotels", "Up to 140 euros."], ["第三章 报销", "正文"]],
        bookmarks=[Bookmark("Travel", 1), Bookmark("Hotels", 1, level=2), Bookmark("报销", 2)],
    )
    _, pages = read(tmp_path / "a.pdf", content)
    found = [(heading.level, heading.text, heading.start) for heading in pages[0].headings]
    assert found == [(1, "Travel", 11), (2, "Hotels", 20)]
    assert [heading.text for heading in pages[1].headings] == ["报销"]


def test_title_comes_from_the_metadata(tmp_path: Path) -> None:
    info, _ = read(tmp_path / "a.pdf", make_pdf([["x"]], title="员工手册"))
    assert info.title == "员工手册"


def test_pages_without_text_are_kept_and_named(tmp_path: Path) -> None:
    _, pages = read(tmp_path / "a.pdf", make_pdf([["one"], [], [], ["four"]]))
    assert [page.text for page in pages] == ["one\n", "\n", "\n", "four\n"]
    assert pages[-1].warnings == ("There is no text on pages 2-3.",)


def test_a_pdf_without_any_text_is_empty(tmp_path: Path) -> None:
    with pytest.raises(EmptyDocument, match=r"blank\.pdf.*no text"):
        read(tmp_path / "blank.pdf", make_pdf([[], []]))


def test_a_scan_is_refused_with_the_reason() -> None:
    with pytest.raises(EmptyDocument, match="scanned, and OCR is not enabled"):
        list(parse(SAMPLES / "scan.pdf", "scan.pdf")[1])


def test_a_password_is_asked_for_by_name() -> None:
    with pytest.raises(EncryptedDocument, match=r"secret\.pdf"):
        parse(SAMPLES / "encrypted.pdf", "secret.pdf")


def test_a_truncated_pdf_is_unreadable(tmp_path: Path) -> None:
    content = make_pdf([["text"] * 20] * 5)
    with pytest.raises(UnreadableDocument, match=r"cut\.pdf.*damaged or truncated"):
        read(tmp_path / "cut.pdf", content[: len(content) // 3])


def test_a_claimed_billion_pages_is_not_believed(tmp_path: Path) -> None:
    content = make_pdf([["only page"]]).replace(b"/Count 1 >>", b"/Count 999999999 >>")
    _, pages = read(tmp_path / "a.pdf", content)
    assert pages[0].text == "only page\n"
    assert len(pages) < 1000


def test_a_hyphen_at_a_line_end_stays_with_its_line_break(tmp_path: Path) -> None:
    _, pages = read(tmp_path / "a.pdf", make_pdf([["This is inter-", "national law."]]))
    assert pages[0].text == "This is inter-\nnational law.\n"
    assert len(pages[0].lines) == 2
