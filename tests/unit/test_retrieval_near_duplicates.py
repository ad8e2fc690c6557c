from __future__ import annotations

import pytest

from retrieval.near_duplicates import fingerprint, is_duplicate, repeats, shared_part

NOTICE = (
    "The committee meets on the first Monday of each month. Its minutes are published within ten days, "
    "and every member may add remarks to them in writing before the following meeting takes place."
)
公告 = (
    "委员会每月第一个星期一召开会议，会议纪要在十天之内公布，每位委员都可以在下次会议之前以书面形式补充意见。"
)


@pytest.mark.parametrize("text", [NOTICE, 公告])
def test_spaces_marks_case_and_width_make_no_difference(text: str) -> None:
    other = f"  {text.upper().replace('，', ', ')}\n\n".replace(".", "。")
    assert is_duplicate(fingerprint(other), fingerprint(text))


@pytest.mark.parametrize(
    ("last", "this"),
    [
        (f"{NOTICE} Revenue was 1,204 million in 2021.", f"{NOTICE} Revenue was 1,204 million in 2022."),
        (f"{公告}2021年收入为12.04亿元。", f"{公告}2022年收入为12.04亿元。"),
    ],
)
def test_the_same_words_with_other_numbers_are_no_duplicate(last: str, this: str) -> None:
    assert shared_part(fingerprint(this), fingerprint(last)) > 0.8
    assert not is_duplicate(fingerprint(this), fingerprint(last))


def test_a_part_is_a_duplicate_of_the_whole_and_not_the_other_way_round() -> None:
    whole = fingerprint(f"{NOTICE} The chair is elected for three years by all members, present or not. " * 2)
    part = fingerprint(NOTICE)
    assert is_duplicate(part, whole)
    assert not is_duplicate(whole, part)


def test_half_a_text_said_again_repeats_without_being_a_duplicate() -> None:
    mixed = fingerprint(f"{NOTICE} {公告}{公告[::-1]}")
    assert repeats(mixed, fingerprint(NOTICE))
    assert not is_duplicate(mixed, fingerprint(NOTICE))


def test_short_and_empty_texts_are_compared_whole() -> None:
    assert is_duplicate(fingerprint("是。"), fingerprint("是"))
    assert not is_duplicate(fingerprint("否"), fingerprint("是"))
    assert not is_duplicate(fingerprint("5"), fingerprint("6"))
    assert is_duplicate(fingerprint("—"), fingerprint(""))
