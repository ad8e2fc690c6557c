from __future__ import annotations

from core.ids import SegmentId
from retrieval.compaction import MAX_MERGED_VECTORS, SegmentInfo, plan_compaction


def segments(*sizes: int) -> list[SegmentInfo]:
    return [SegmentInfo(SegmentId(f"seg_{i}"), "flat", size) for i, size in enumerate(sizes)]


def sizes(planned: tuple[SegmentInfo, ...]) -> list[int]:
    return [segment.num_vectors for segment in planned]


def test_few_segments_are_left_alone() -> None:
    assert plan_compaction(segments(10, 20, 30, 4000)) == ()
    assert plan_compaction([]) == ()


def test_eight_of_a_size_are_merged_and_large_ones_left() -> None:
    assert sizes(plan_compaction(segments(5000, *[10] * 8, 70_000))) == [10] * 8


def test_a_segment_full_of_the_dead_is_rewritten() -> None:
    found = segments(1000, 1000)
    assert plan_compaction(found, num_dead={found[1].id: 400}) == (found[1],)
    assert plan_compaction(found, num_dead={found[1].id: 200}) == ()


def test_a_wholly_dead_segment_is_taken_away() -> None:
    found = segments(1000)
    assert plan_compaction(found, num_dead={found[0].id: 1000}) == (found[0],)


def test_merging_stays_below_the_limit() -> None:
    planned = plan_compaction(segments(*[300_000] * 8))
    assert len(planned) >= 2
    assert sum(sizes(planned)) <= MAX_MERGED_VECTORS


def test_repeated_merging_rewrites_a_vector_few_times() -> None:
    live, rewritten = segments(), 0
    for i in range(512):
        live.append(SegmentInfo(SegmentId(f"new_{i}"), "flat", 10))
        while planned := plan_compaction(live):
            rewritten += sum(sizes(planned))
            live = [s for s in live if s not in planned]
            live.append(SegmentInfo(SegmentId(f"merged_{i}_{len(live)}"), "flat", sum(sizes(planned))))
    assert len(live) < 24
    assert rewritten <= 4 * 5120
