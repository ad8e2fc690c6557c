"""What an engine's prefix cache holds, told from outside."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from inference.resident_prefixes import CacheGeometry, ResidentPrefixes

BLOCK = 4


def cache(num_blocks: int | None = None) -> ResidentPrefixes:
    return ResidentPrefixes(CacheGeometry(BLOCK, num_blocks))


def send(
    prefixes: ResidentPrefixes,
    prompt: Sequence[int],
    *,
    salt: str = "a",
    cached: int | None = None,
    answer: int = 0,
) -> None:
    prefixes.finished(prefixes.sent(salt, prompt), cached_tokens=cached, completion_tokens=answer)


def test_only_whole_blocks_behind_the_same_blocks_are_found() -> None:
    prefixes = cache()
    send(prefixes, range(10))
    assert prefixes.num_cached("a", [*range(10), 99]) == 8
    assert prefixes.num_cached("a", [*range(6), 99, 99]) == 4
    assert prefixes.num_cached("a", [99, *range(10)]) == 0


def test_the_last_token_is_always_computed_again() -> None:
    prefixes = cache()
    send(prefixes, range(8))
    assert prefixes.num_cached("a", range(8)) == 4
    assert prefixes.num_cached("a", range(9)) == 8


def test_tenants_find_nothing_of_one_another() -> None:
    prefixes = cache()
    send(prefixes, range(8), salt="a")
    assert prefixes.num_cached("b", range(9)) == 0


def test_what_runs_is_expected_but_not_there_until_its_first_token() -> None:
    prefixes = cache()
    prompt = prefixes.sent("a", range(8))
    assert prefixes.num_cached("a", range(9)) == 0
    assert prefixes.num_expected("a", range(9)) == 8
    prefixes.computed(prompt)
    assert prefixes.num_cached("a", range(9)) == 8


def test_a_request_that_failed_leaves_only_what_others_computed() -> None:
    prefixes = cache()
    send(prefixes, range(4))
    prefixes.abandoned(prefixes.sent("a", range(12)))
    assert prefixes.num_expected("a", range(13)) == 4


def test_the_prompt_longest_out_of_use_is_evicted_and_its_end_first() -> None:
    prefixes = cache(num_blocks=4)
    send(prefixes, range(8))
    send(prefixes, range(100, 108))
    send(prefixes, range(200, 204))
    assert prefixes.num_cached("a", range(9)) == 4
    assert prefixes.num_cached("a", range(100, 109)) == 8


def test_what_was_found_again_is_evicted_last() -> None:
    prefixes = cache(num_blocks=4)
    send(prefixes, range(8))
    send(prefixes, range(100, 108))
    send(prefixes, range(8))
    send(prefixes, range(200, 208))
    assert prefixes.num_cached("a", range(9)) == 8
    assert prefixes.num_cached("a", range(100, 109)) == 0


def test_answers_take_room_too() -> None:
    prefixes = cache(num_blocks=4)
    send(prefixes, range(8))
    send(prefixes, range(100, 104), answer=12)
    assert prefixes.num_cached("a", range(9)) == 0


def test_a_reply_that_found_less_makes_the_missing_and_the_older_forgotten() -> None:
    prefixes = cache()
    send(prefixes, range(8))
    send(prefixes, range(100, 108))
    send(prefixes, range(200, 208))
    send(prefixes, range(100, 109), cached=0)
    assert prefixes.num_cached("a", range(9)) == 0, "older than what was missing"
    assert prefixes.num_cached("a", range(200, 209)) == 8, "newer"
    assert prefixes.num_cached("a", range(100, 109)) == 8, "computed again"


def test_an_engine_that_was_restarted_is_found_empty_by_the_first_reply() -> None:
    prefixes = cache()
    for start in (0, 100, 200):
        send(prefixes, [*range(1000, 1004), *range(start, start + 4)])
    send(prefixes, [*range(1000, 1004), *range(300, 304)], cached=0)
    assert prefixes.num_cached("a", [*range(1000, 1004), *range(200, 204), 1]) == 4
    assert prefixes.num_blocks == 2


def test_a_prefix_still_being_computed_by_another_is_no_reason_to_forget() -> None:
    prefixes = cache()
    send(prefixes, range(100, 108))
    leader = prefixes.sent("a", range(8))
    follower = prefixes.sent("a", range(9))
    prefixes.finished(follower, cached_tokens=0, completion_tokens=0)
    prefixes.finished(leader, cached_tokens=0, completion_tokens=0)
    assert prefixes.num_cached("a", range(100, 109)) == 8


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=16), min_size=1, max_size=30), st.integers(2, 8)
)
def test_it_never_holds_more_than_its_space_nor_a_block_without_those_before_it(
    prompts: list[list[int]], num_blocks: int
) -> None:
    prefixes = cache(num_blocks)
    for number, prompt in enumerate(prompts):
        known = prefixes.num_cached("a", prompt)
        send(prefixes, prompt, cached=max(0, known - BLOCK * (number % 3)), answer=number % 6)
        assert prefixes.num_blocks <= num_blocks
        longest = prefixes.num_cached("a", [*prompt, 9])
        assert longest <= len(prompt)
        assert prefixes.num_cached("a", [*prompt[:longest], 9]) == longest


def test_of_an_engine_that_tells_nothing_no_more_is_remembered_than_memory_allows() -> None:
    prefixes = ResidentPrefixes(CacheGeometry(1))
    for salt in ("a", "b", "c"):
        prefixes.heard_of(salt, range(30_000))
    assert prefixes.num_blocks == 1 << 16
    assert prefixes.num_cached("c", range(30_000)) > 0
