import pytest

from core.errors import StoreCorrupt
from storage.page_layout import LineBox, boxes_between, pack_layout, unpack_layout


def test_boxes_come_back_to_a_tenth_of_a_point() -> None:
    lines = (LineBox(0, 12, 72.04, 90.0, 210.26, 101.5), LineBox(13, 20, 72.0, 110.0, 130.0, 121.0))
    assert unpack_layout(pack_layout(lines)) == (LineBox(0, 12, 72.0, 90.0, 210.3, 101.5), lines[1])


def test_no_lines_take_no_bytes() -> None:
    assert pack_layout(()) == b""
    assert unpack_layout(b"") == ()


@pytest.mark.parametrize("packed", [b"rubbish", b"x\x9c\x03\x00\x00\x00\x00\x01"])
def test_damage_is_noticed(packed: bytes) -> None:
    with pytest.raises(StoreCorrupt):
        unpack_layout(packed)


def test_a_stretch_has_a_box_a_line_and_part_of_a_line_part_of_its_box() -> None:
    text = "Neptune has moons.\nTriton is one.\n"
    lines = (LineBox(0, 18, 72.0, 90.0, 162.0, 102.0), LineBox(19, 33, 72.0, 110.0, 142.0, 122.0))
    whole, second = boxes_between(lines, text, 0, 33)
    assert (whole.x0, whole.x1, second.x0, second.x1) == (72.0, 162.0, 72.0, 142.0)
    (moons,) = boxes_between(lines, text, text.index("moons"), 19)
    assert 72.0 + 45 < moons.x0 < 162.0 - 20
    assert (moons.x1, moons.y0, moons.y1) == (162.0, 90.0, 102.0)
    assert boxes_between(lines, text, 18, 19) == []
    assert boxes_between((), text, 0, 18) == []


def test_chinese_is_measured_by_its_full_width() -> None:
    text = "关云长造青龙偃月刀，重82斤。\n"
    (line,) = lines = (LineBox(0, 15, 100.0, 50.0, 240.0, 62.0),)
    (weight,) = boxes_between(lines, text, text.index("重"), 15)
    assert weight.x0 == pytest.approx(100 + 140 * 10 / 14, abs=1)
    assert weight.x1 == line.x1


def test_lines_that_do_not_run_to_the_right_are_given_whole() -> None:
    (line,) = lines = (LineBox(0, 6, 500.0, 100.0, 512.0, 172.0),)
    assert boxes_between(lines, "自右而左直书\n", 3, 6) == [line]


def test_indented_lines_begin_where_their_text_does() -> None:
    text = "    indented words\n"
    (box,) = boxes_between((LineBox(0, 18, 90.0, 50.0, 190.0, 62.0),), text, 0, 18)
    assert (box.x0, box.x1) == (90.0, 190.0)
