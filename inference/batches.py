"""Which texts an encoder takes at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def batches_by_length(lengths: Sequence[int], *, max_tokens: int) -> Iterator[list[int]]:
    """Indices in batches, longest first, each of at most `max_tokens` once padded.

    An input longer than that is a batch of its own. sentence-transformers sorts too, but by
    characters, of which a Chinese token has fewer than an English one.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    start = 0
    while start < len(order):
        size = max(1, max_tokens // max(1, lengths[order[start]]))
        yield order[start : start + size]
        start += size
