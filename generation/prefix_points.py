"""Where prompts may turn out to share a prefix: names for the prefixes that end with a segment."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from generation.segments import Segment

ALIGNMENT_TOKENS = 32
"""Engines reuse whole blocks only. 32 tokens is a whole number of blocks of 16 and of 32; of larger
ones a point may claim a part that is computed again, which costs less than one block."""

MAX_POINTS = 16


@dataclass(frozen=True, slots=True)
class PrefixPoint:
    """The first `num_tokens` of a prompt; the same tokens under the same namespace have the same `key`."""

    num_tokens: int
    key: str


def prefix_points(
    segments: Sequence[Segment], *, namespace: str, min_tokens: int, max_points: int = MAX_POINTS
) -> tuple[PrefixPoint, ...]:
    """Prefixes that end with a segment, rounded down to whole blocks, shortest first.

    Args:
        namespace: what else must agree for the cache to be shared: engine, model and tenant.
        min_tokens: of the shortest one.
        max_points: where there are more, points in between are left out, never the longest.
    """
    lengths = _thin(_aligned_ends(segments, max(min_tokens, 1)), max_points)
    tokens = array("q", (token for segment in segments for token in segment.token_ids))
    digest = blake2b(namespace.encode(), digest_size=16)
    points, start = [], 0
    for length in lengths:
        digest.update(tokens[start:length].tobytes())
        points.append(PrefixPoint(length, digest.copy().hexdigest()))
        start = length
    return tuple(points)


def _aligned_ends(segments: Sequence[Segment], min_tokens: int) -> list[int]:
    ends: list[int] = []
    end = 0
    for segment in segments:
        end += len(segment)
        aligned = end - end % ALIGNMENT_TOKENS
        if aligned >= min_tokens and aligned not in ends[-1:]:
            ends.append(aligned)
    return ends


def _thin(lengths: list[int], max_points: int) -> list[int]:
    if len(lengths) <= max_points:
        return lengths
    step = len(lengths) / max_points
    return [lengths[round((i + 1) * step) - 1] for i in range(max_points)]
