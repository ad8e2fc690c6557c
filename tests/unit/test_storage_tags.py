from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InvalidInput
from storage.tags import MAX_TAG_CHARACTERS, MAX_TAGS, clean_document_tags, clean_tags, split_tags


@pytest.mark.parametrize(
    ("given_tag", "kept"),
    [
        ("  Finance ", "finance"),
        ("Ｈ１　Report", "h1 report"),  # fullwidth, with an ideographic space
        ("合同", "合同"),
        ("⼈事", "人事"),  # a Kangxi radical that looks like the character
        ("Straße", "straße"),
        ("a \t b", "a b"),
    ],
)
def test_a_tag_is_kept_as_it_is_compared(given_tag: str, kept: str) -> None:
    assert clean_tags([given_tag]) == (kept,)


def test_each_tag_counts_once_in_the_order_given() -> None:
    assert clean_tags(["b", "合同", "B", "a", "合同 "]) == ("b", "合同", "a")


@pytest.mark.parametrize(
    "tag", ["", "  ", "\u3000", "a,b", "合同，租赁", "合同、租赁", "a\x00b", "a\u200bb", "\ud800", "字" * 65]
)
def test_what_can_be_no_tag_is_refused(tag: str) -> None:
    with pytest.raises(InvalidInput):
        clean_tags(["fine", tag])


def test_a_tag_may_be_as_long_as_it_may_be() -> None:
    assert clean_tags(["字" * MAX_TAG_CHARACTERS]) == ("字" * MAX_TAG_CHARACTERS,)


def test_a_document_has_room_for_so_many_distinct_tags() -> None:
    tags = [f"标签{i}" for i in range(MAX_TAGS)]
    assert clean_document_tags([*tags, *tags]) == tuple(tags)
    with pytest.raises(InvalidInput, match="33 tags are too many"):
        clean_document_tags([*tags, "one more"])


@pytest.mark.parametrize(
    ("line", "tags"),
    [
        ("合同，2026, 租赁、Legal", ["合同", "2026", "租赁", "Legal"]),
        ("single", ["single"]),
        (" , ，", []),
        ("", []),
    ],
)
def test_tags_in_one_line_are_split_at_commas_of_either_script(line: str, tags: list[str]) -> None:
    assert [tag.strip() for tag in split_tags(line)] == tags


@given(st.text(max_size=40))
def test_cleaning_a_clean_tag_changes_nothing(text: str) -> None:
    try:
        cleaned = clean_tags([text])
    except InvalidInput:
        return
    assert clean_tags(cleaned) == cleaned
