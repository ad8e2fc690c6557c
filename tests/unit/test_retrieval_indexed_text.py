from __future__ import annotations

from retrieval.indexed_text import embedding_key, embedding_text


def test_title_headings_and_text_in_lines() -> None:
    assert embedding_text("Guide", ("Install", "Linux"), "Run it.") == "Guide\nInstall > Linux\nRun it."


def test_empty_parts_are_left_out() -> None:
    assert embedding_text("", (), "正文") == "正文"
    assert embedding_text("标题", ("",), "正文") == "标题\n正文"


def test_a_heading_that_repeats_the_title_is_said_once() -> None:
    assert embedding_text("Guide", ("Guide", "Linux"), "x") == "Guide\nLinux\nx"


def test_long_titles_and_paths_are_cut_but_the_innermost_heading_stays() -> None:
    text = embedding_text("t" * 500, tuple(f"{i}" + "h" * 100 for i in range(6)), "x")
    title, headings, _ = text.split("\n")
    assert len(title) == 160
    assert headings.endswith("5" + "h" * 100)
    assert len(headings) <= 240


def test_the_key_follows_the_text() -> None:
    assert embedding_key("a", (), "x") == embedding_key("a", (), "x") != embedding_key("b", (), "x")
