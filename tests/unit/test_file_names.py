"""File names come from strangers; they are shown, never used as paths."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.uploads import MAX_NAME_BYTES, clean_file_name


@pytest.mark.parametrize(
    ("given_name", "shown"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("..\\..\\windows\\system32\\a.txt", "a.txt"),
        ("/absolute/年度报告.docx", "年度报告.docx"),
        ("a\x00b\x1b[31m\n.txt", "ab[31m.txt"),
        ("\u202egpj.exe", "gpj.exe"),
        ("  spaced  .md ", "spaced  .md"),
        ("", "unnamed"),
        ("..", "unnamed"),
        ("/", "unnamed"),
    ],
)
def test_a_name_loses_path_and_invisible_characters(given_name: str, shown: str) -> None:
    assert clean_file_name(given_name) == shown


def test_three_hundred_chinese_characters_keep_their_suffix() -> None:
    shown = clean_file_name("长" * 300 + ".pdf")
    assert shown.endswith("长.pdf")
    assert len(shown.encode()) <= MAX_NAME_BYTES


@given(st.text())
def test_any_name_becomes_a_plain_short_one(name: str) -> None:
    shown = clean_file_name(name)
    assert shown
    assert "/" not in shown
    assert "\\" not in shown
    assert shown not in (".", "..")
    assert len(shown.encode()) <= MAX_NAME_BYTES
    assert shown.isprintable() or " " in shown or any(ord(c) > 127 for c in shown)
