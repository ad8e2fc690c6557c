"""Which parts of a prompt the engine had computed before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from generation.segments import Segment

CacheMark = Literal["cached", "partly", "uncached"]


@dataclass(frozen=True, slots=True)
class PlacedSegment:
    """Tokens `start` to `end` of the prompt, of which the first `cached_tokens` were cached."""

    segment: Segment
    start: int
    end: int
    cached_tokens: int

    @property
    def mark(self) -> CacheMark:
        if self.cached_tokens == 0:
            return "uncached"
        return "cached" if self.cached_tokens == self.end - self.start else "partly"


def mark_segments(segments: Sequence[Segment], *, cached_tokens: int) -> list[PlacedSegment]:
    """The segments in their places. An engine reuses a prompt from its front, in whole blocks, so the
    first `cached_tokens` were reused, and the boundary lies at a block's end, not at a segment's."""
    placed: list[PlacedSegment] = []
    start = 0
    for segment in segments:
        end = start + len(segment)
        cached = min(max(0, cached_tokens - start), len(segment))
        placed.append(PlacedSegment(segment, start, end, cached))
        start = end
    return placed
