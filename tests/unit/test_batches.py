"""Grouping of texts for an encoder."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from inference.batches import batches_by_length


@given(st.lists(st.integers(1, 600)), st.integers(1, 2000))
def test_every_text_is_in_one_batch_and_batches_keep_their_budget(lengths: list[int], budget: int) -> None:
    batches = list(batches_by_length(lengths, max_tokens=budget))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        padded = len(batch) * max(lengths[index] for index in batch)
        assert padded <= budget or len(batch) == 1


def test_longest_texts_come_first_so_that_batches_hold_like_lengths() -> None:
    assert list(batches_by_length([3, 90, 4, 100], max_tokens=200)) == [[3, 1], [2, 0]]
