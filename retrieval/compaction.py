"""Which small segments to merge. Pure: the caller has the rows and does the work."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.ids import SegmentId

MIN_MERGE = 8
MAX_MERGED_VECTORS = 1_000_000
MAX_DEAD_SHARE = 0.3
_TIER_BASE = 8


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """A FAISS file as its row knows it."""

    id: SegmentId
    kind: str
    num_vectors: int


def plan_compaction(
    segments: Sequence[SegmentInfo], *, num_dead: Mapping[SegmentId, int] | None = None
) -> tuple[SegmentInfo, ...]:
    """The segments to merge into one now, oldest first; empty when all is well.

    Segments of about the same size are merged once there are eight of them, so that a vector
    is rewritten a logarithmic number of times; a segment with more than 30 % dead vectors is
    rewritten whatever its size. A merged segment stays below a million vectors.

    Args:
        segments: oldest first.
        num_dead: vectors whose chunks are gone, by segment; absent means none.
    """
    dead = num_dead or {}
    stale = [s for s in segments if dead.get(s.id, 0) > MAX_DEAD_SHARE * s.num_vectors]
    tiers: defaultdict[int, list[SegmentInfo]] = defaultdict(list)
    for segment in segments:
        tiers[int(math.log(max(1, segment.num_vectors), _TIER_BASE))].append(segment)
    full = [tier for _, tier in sorted(tiers.items()) if len(tier) >= MIN_MERGE]
    chosen = {s.id for s in stale} | {s.id for s in (full[0] if full else [])}
    return _within_limit([s for s in segments if s.id in chosen], dead)


def _within_limit(segments: Sequence[SegmentInfo], dead: Mapping[SegmentId, int]) -> tuple[SegmentInfo, ...]:
    taken: list[SegmentInfo] = []
    total = 0
    for segment in segments:
        total += segment.num_vectors - dead.get(segment.id, 0)
        if taken and total > MAX_MERGED_VECTORS:
            break
        taken.append(segment)
    if len(taken) == 1 and not dead.get(taken[0].id, 0):
        return ()  # alone and wholly alive: rewriting it would change nothing
    return tuple(taken)
