"""Pages drawn in a process that may die of them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image

from core.errors import UnreadableDocument
from ingest.page_picture import draw_page
from ingest.parsers import parse
from storage.page_layout import boxes_between
from tests.documents import make_pdf

SAMPLES = Path(__file__).parent.parent / "samples"
GIB = 1024**3
YELLOW = (255, 235, 90)


def draw(path: Path, number: int = 1, **options: object) -> Image.Image:
    arguments = {"width": 595, "memory_bytes": 4 * GIB} | options
    picture = draw_page(path, path.name, number, **arguments)  # type: ignore[arg-type]
    return Image.open(io.BytesIO(picture))


@pytest.fixture
def moons(tmp_path: Path) -> Path:
    path = tmp_path / "moons.pdf"
    path.write_bytes(make_pdf([["First page"], ["Neptune has moons", "海王星有十四颗卫星"]]))
    return path


@pytest.mark.parametrize("width", [100, 595, 2400])
def test_a_page_is_as_wide_as_asked_and_as_high_as_it_follows(moons: Path, width: int) -> None:
    picture = draw(moons, width=width)
    assert picture.format == "PNG"
    assert picture.size == (width, pytest.approx(width * 842 / 595, abs=1))


def test_what_is_marked_is_coloured_and_its_text_stays_black(moons: Path) -> None:
    _, pages = parse(moons, "moons.pdf")
    page = list(pages)[1]
    start = page.text.index("moons")
    (box,) = boxes_between(page.lines, page.text, start, start + 5)
    bare = draw(moons, 2)
    marked = draw(moons, 2, marks=[(box.x0, box.y0, box.x1, box.y1)])
    assert not any(colour == YELLOW for _, colour in bare.getcolors(1 << 20) or ())
    yellow = [
        (x, y) for x in range(marked.width) for y in range(marked.height) if marked.getpixel((x, y)) == YELLOW
    ]
    assert box.x0 - 2 <= min(x for x, _ in yellow) <= max(x for x, _ in yellow) <= box.x1 + 2
    assert box.y0 - 2 <= min(y for _, y in yellow) <= max(y for _, y in yellow) <= box.y1 + 2
    dark = [
        c
        for c in marked.crop((int(box.x0), int(box.y0), int(box.x1), int(box.y1))).get_flattened_data()
        if sum(c) < 150
    ]
    assert dark, "the word itself"


def test_marks_beyond_the_page_are_only_cut(moons: Path) -> None:
    whole = draw(moons, marks=[(-1e9, -1e9, 1e9, 1e9), (700, 100, 800, 120), (50, 50, 40, 40)])
    assert whole.getpixel((1, 1)) == YELLOW


def test_a_page_of_extreme_shape_is_drawn_narrower(tmp_path: Path) -> None:
    path = tmp_path / "ribbon.pdf"
    path.write_bytes(make_pdf([["A ribbon"]]).replace(b"[0 0 595 842]", b"[0 0 10 14400]"))
    picture = draw(path, width=2400)
    assert picture.height <= 4 * 2400
    assert picture.width < 100


@pytest.mark.parametrize(
    "content", [b"", b"%PDF-1.7 rubbish", make_pdf([["x"]])[:300], b"\x89PNG not a PDF at all"]
)
def test_a_damaged_file_is_an_error_about_its_page(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "坏.pdf"
    path.write_bytes(content)
    with pytest.raises(UnreadableDocument, match=r"Drawing page 1 of '坏\.pdf'") as caught:
        draw(path)
    assert caught.value.remedy


def test_a_locked_file_is_an_error_about_its_page() -> None:
    with pytest.raises(UnreadableDocument, match=r"encrypted\.pdf"):
        draw(SAMPLES / "encrypted.pdf")


def test_time_and_memory_are_bounded(moons: Path) -> None:
    with pytest.raises(UnreadableDocument, match=r"took longer than 0\.01 seconds"):
        draw(moons, timeout_seconds=0.01)
    with pytest.raises(UnreadableDocument, match="Drawing page 1"):
        draw(moons, memory_bytes=16 * 1024**2)
