"""Names for the prefixes that prompts may share."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from generation.prefix_points import ALIGNMENT_TOKENS, PrefixPoint, prefix_points
from generation.segments import Segment


def points(
    *segments: Sequence[int], namespace: str = "a", min_tokens: int = 1, max_points: int = 16
) -> tuple[PrefixPoint, ...]:
    parts = [Segment("passage", tuple(tokens)) for tokens in segments]
    return prefix_points(parts, namespace=namespace, min_tokens=min_tokens, max_points=max_points)


def test_points_are_the_segment_ends_rounded_down_to_whole_blocks() -> None:
    assert [p.num_tokens for p in points(range(40), range(10), range(70))] == [32, 96]


def test_prompts_share_the_points_up_to_where_they_part_and_none_after() -> None:
    first = points(range(64), range(100, 164), range(200, 264))
    second = points(range(64), range(100, 164), range(300, 364))
    assert first[:2] == second[:2]
    assert first[2].key != second[2].key


def test_another_tenant_or_engine_shares_nothing() -> None:
    assert points(range(64), namespace="a")[0].key != points(range(64), namespace="b")[0].key


def test_how_the_tokens_before_were_cut_does_not_matter() -> None:
    assert points(range(64), range(64, 128))[-1] == points(range(128))[0]


def test_short_prefixes_are_no_points() -> None:
    assert points(range(40), range(600), min_tokens=512)[0].num_tokens == 640
    assert points(range(40), min_tokens=512) == ()


def test_of_many_points_the_longest_stays() -> None:
    found = points(*[range(32)] * 100, max_points=8)
    assert len(found) == 8
    assert found[-1].num_tokens == 3200


@given(st.lists(st.integers(1, 200), min_size=1, max_size=40), st.integers(1, 8))
def test_points_grow_and_lie_on_block_boundaries_within_the_prompt(lengths: list[int], most: int) -> None:
    found = [p.num_tokens for p in points(*map(range, lengths), max_points=most)]
    assert found == sorted(set(found))
    assert len(found) <= most
    assert all(n % ALIGNMENT_TOKENS == 0 and n <= sum(lengths) for n in found)
