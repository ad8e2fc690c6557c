from pathlib import Path

import pytest

from core.errors import EmptyDocument
from ingest.parsed import DocumentInfo, ParsedPage, join_pages
from ingest.parsers import parse


def read(tmp_path: Path, content: str | bytes, name: str = "a.txt") -> tuple[DocumentInfo, list[ParsedPage]]:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    info, pages = parse(path, name)
    return info, list(pages)


def test_text_is_verbatim_with_a_final_newline(tmp_path: Path) -> None:
    _, (page,) = read(tmp_path, "ﬁrst  line\r\nsecond\rthird")
    assert page.text == "ﬁrst  line\nsecond\nthird\n"


def test_form_feeds_part_pages(tmp_path: Path) -> None:
    info, pages = read(tmp_path, "one\ftwo\n\f")
    assert info.num_pages == 2
    assert [(page.number, page.text) for page in pages] == [(1, "one\n"), (2, "two\n")]


def test_control_characters_never_come_through(tmp_path: Path) -> None:
    _, (page,) = read(tmp_path, b"KUM\x01QUAT \x1b[31mred\x1b[0m \x07\xef\xbf\xbe end")
    assert page.text == "KUMQUAT red  end\n"


def test_chapters_are_headings(tmp_path: Path) -> None:
    text = "《三国演义》\n\n第一回 宴桃园豪杰三结义 斩黄巾英雄首立功\n\n话说天下大势。\n第二回说的是别的事，不是标题。\n"
    _, (page,) = read(tmp_path, text)
    assert [(h.level, h.text) for h in page.headings] == [(1, "第一回 宴桃园豪杰三结义 斩黄巾英雄首立功")]
    assert page.text[page.headings[0].start :].startswith("第一回")


def test_parts_and_chapters_nest_across_pages(tmp_path: Path) -> None:
    _, pages = read(
        tmp_path, "PART I\n\nChapter 1. The Start\nIn chapter 2 we shall see.\n\fChapter 2\ntext\n"
    )
    joined = join_pages(pages)
    assert [(h.level, h.text) for h in joined.headings] == [
        (1, "PART I"),
        (2, "Chapter 1. The Start"),
        (2, "Chapter 2"),
    ]
    assert joined.text[joined.headings[2].start :].startswith("Chapter 2\n")


def test_a_guessed_encoding_is_told(tmp_path: Path) -> None:
    info, _ = read(tmp_path, "né".encode("cp1252"))
    assert "guessed" in info.warnings[0]


@pytest.mark.parametrize("content", [" \n\t\n", "\ufeff \n", "\u3000\n"])
def test_white_space_is_empty(tmp_path: Path, content: str) -> None:
    with pytest.raises(EmptyDocument, match=r"a\.txt.*white space"):
        read(tmp_path, content)


def test_markdown_headings_outside_code(tmp_path: Path) -> None:
    text = "---\ntitle: 手册\n---\n# Travel *policy* #\n\n```\n# comment\n```\n\nHotels\n------\n- item\n---\n### [链接](x)\n"
    info, (page,) = read(tmp_path, text, "a.md")
    assert info.title == "手册"
    assert [(h.level, h.text) for h in page.headings] == [(1, "Travel policy"), (2, "Hotels"), (3, "链接")]
    assert page.text == text
    assert page.text[page.headings[1].start :].startswith("Hotels\n")
