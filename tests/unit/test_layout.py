import pytest

from core.errors import StoreCorrupt
from ingest.layout import pack_layout, unpack_layout
from ingest.parsed import LineBox


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
