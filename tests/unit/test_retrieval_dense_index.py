from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from core.errors import InvalidInput, StoreCorrupt
from core.ids import ChunkId, CollectionId, DocumentId, SegmentId
from retrieval.compaction import SegmentInfo
from retrieval.dense_index import DenseIndex
from retrieval.segment_file import open_segment, write_segment

COLLECTION = CollectionId("col_1")
DIMENSION = 32


def unit_vectors(num: int, *, seed: int = 0) -> NDArray[np.float32]:
    vectors = np.random.default_rng(seed).standard_normal((num, DIMENSION)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def ids(first: int, num: int) -> list[ChunkId]:
    return [ChunkId(first + i) for i in range(num)]


def write(
    index: DenseIndex,
    chunk_ids: list[ChunkId],
    vectors: NDArray[np.float32],
    *,
    chunks_per_document: int = 10,
) -> SegmentInfo:
    """A segment whose chunks fall to `doc_0`, `doc_1`, … by their ids."""
    documents = [DocumentId(f"doc_{chunk_id // chunks_per_document}") for chunk_id in chunk_ids]
    return index.write(COLLECTION, chunk_ids, vectors, documents=documents)


@pytest.fixture(params=[10**9, 50], ids=["flat", "hnsw"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> DenseIndex:
    return DenseIndex(tmp_path, hnsw_min_vectors=request.param)


def path_of(folder: Path, segment: SegmentInfo) -> Path:
    return folder / COLLECTION / "dense" / f"{segment.id}.faiss"


def test_search_goes_over_all_segments_best_first(index: DenseIndex) -> None:
    vectors = unit_vectors(200)
    big = 2**62
    segments = [
        write(index, ids(1, 100), vectors[:100]),
        write(index, ids(big, 100), vectors[100:]),
    ]
    hits = index.search(COLLECTION, segments, vectors[150], 5)
    assert hits[0].chunk_id == big + 50
    assert hits[0].score == pytest.approx(1.0, abs=2e-3)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert len(index.search(COLLECTION, segments, vectors[0], 1000)) >= 100


def test_exact_recall_of_flat_segments(tmp_path: Path) -> None:
    index, vectors = DenseIndex(tmp_path), unit_vectors(500)
    segment = write(index, ids(1, 500), vectors)
    for query in unit_vectors(20, seed=1):
        expected = set((np.argsort(-vectors @ query)[:10] + 1).tolist())
        found = {hit.chunk_id for hit in index.search(COLLECTION, [segment], query, 10)}
        assert len(found & expected) >= 9  # fp16 may swap near-equal neighbours at the edge


def test_a_chunk_in_two_segments_is_found_once(index: DenseIndex) -> None:
    vectors = unit_vectors(60)
    segments = [write(index, ids(1, 60), vectors) for _ in range(2)]
    hits = index.search(COLLECTION, segments, vectors[0], 10)
    assert len({hit.chunk_id for hit in hits}) == len(hits) == 10


def test_no_segments_give_no_hits(index: DenseIndex) -> None:
    assert index.search(COLLECTION, [], unit_vectors(1)[0], 5) == []


def test_files_are_mapped_not_read(tmp_path: Path) -> None:
    path = tmp_path / "seg.faiss"
    write_segment(path, np.arange(1, 1001), unit_vectors(1000), [DocumentId("doc_1")] * 1000)
    segment = open_segment(path, num_vectors=1000)
    assert str(path) in Path("/proc/self/maps").read_text()
    assert segment.kind == "flat"


@pytest.mark.parametrize("share", [0.5, 0.05, 0.005])
def test_a_filter_keeps_full_recall_however_little_passes(index: DenseIndex, share: float) -> None:
    vectors = unit_vectors(2000)
    segments = [
        write(index, ids(0, 1500), vectors[:1500], chunks_per_document=5),
        write(index, ids(1500, 500), vectors[1500:], chunks_per_document=5),
    ]
    numbers = np.random.default_rng(2).choice(400, size=int(400 * share), replace=False)
    allowed = {DocumentId(f"doc_{number}") for number in numbers}
    chosen = np.flatnonzero(np.isin(np.arange(2000) // 5, numbers))
    for query in unit_vectors(10, seed=3):
        hits = index.search(COLLECTION, segments, query, 10, allowed=allowed)
        products = vectors[chosen] @ query
        best = np.sort(products)[::-1][: len(hits)]
        assert len(hits) == min(10, len(chosen))
        assert {hit.chunk_id for hit in hits} <= set(chosen.tolist())
        assert [hit.score for hit in hits] == pytest.approx(best.tolist(), abs=2e-3)


def test_a_filter_that_lets_all_pass_changes_nothing(index: DenseIndex) -> None:
    segment = write(index, ids(0, 100), unit_vectors(100))
    query, everything = unit_vectors(1, seed=4)[0], [DocumentId(f"doc_{i}") for i in range(10)]
    assert index.search(COLLECTION, [segment], query, 20, allowed=everything) == index.search(
        COLLECTION, [segment], query, 20
    )


@pytest.mark.parametrize("allowed", [[], ["doc_elsewhere"], ["文档"]])
def test_a_filter_that_nothing_passes_finds_nothing(index: DenseIndex, allowed: list[str]) -> None:
    segment = write(index, ids(1, 60), unit_vectors(60))
    documents = [DocumentId(each) for each in allowed]
    assert index.search(COLLECTION, [segment], unit_vectors(1)[0], 5, allowed=documents) == []


def test_a_compacted_segment_still_knows_its_documents(index: DenseIndex) -> None:
    vectors = unit_vectors(120)
    segments = [write(index, ids(0, 60), vectors[:60]), write(index, ids(60, 60), vectors[60:])]
    merged = index.compact(COLLECTION, segments, {ChunkId(i) for i in range(0, 120, 2)})
    assert merged is not None
    for i in (0, 5, 6, 11):
        hits = index.search(COLLECTION, [merged], vectors[0], 50, allowed=[DocumentId(f"doc_{i}")])
        assert {hit.chunk_id for hit in hits} == set(range(10 * i, 10 * i + 10, 2))


def test_a_segment_from_before_filters_says_how_to_rebuild_it(tmp_path: Path) -> None:
    index = DenseIndex(tmp_path)
    segment = write(index, ids(1, 10), unit_vectors(10))
    path = path_of(tmp_path, segment)
    footer = struct.Struct("<8sIIQ")
    data = path.read_bytes()
    *_, packed_length, length = footer.unpack(data[-footer.size :])
    before = data[: length - packed_length]
    path.write_bytes(before + footer.pack(b"LONGLEAF", zlib.crc32(before), 0, len(before)))
    with pytest.raises(StoreCorrupt, match=r"earlier version.*doctor --repair"):
        index.search(COLLECTION, [segment], unit_vectors(1)[0], 5)


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "foreign", "gone"])
def test_a_damaged_file_is_found_out_at_open(tmp_path: Path, damage: str) -> None:
    segment = write(DenseIndex(tmp_path), ids(1, 100), unit_vectors(100))
    path = path_of(tmp_path, segment)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    written = {
        "flip": bytes(data),
        "cut": bytes(data[: len(data) // 2]),
        "empty": b"",
        "foreign": b"x" * 5000,
    }
    path.unlink()
    if damage in written:
        path.write_bytes(written[damage])
    with pytest.raises(StoreCorrupt, match="doctor --repair"):
        DenseIndex(tmp_path).search(COLLECTION, [segment], unit_vectors(1)[0], 5)


def test_a_file_of_another_size_than_its_row_is_refused(tmp_path: Path) -> None:
    segment = write(DenseIndex(tmp_path), ids(1, 100), unit_vectors(100))
    with pytest.raises(StoreCorrupt, match="100 vectors instead of 99"):
        DenseIndex(tmp_path).search(
            COLLECTION, [SegmentInfo(segment.id, segment.kind, 99)], unit_vectors(1)[0], 5
        )


def test_writing_leaves_no_partial_file_behind(tmp_path: Path) -> None:
    index = DenseIndex(tmp_path)
    segment = write(index, ids(1, 10), unit_vectors(10))
    assert [path.name for path in (tmp_path / COLLECTION / "dense").iterdir()] == [f"{segment.id}.faiss"]
    with pytest.raises(InvalidInput):
        write(index, ids(1, 3), unit_vectors(2))
    assert len(list((tmp_path / COLLECTION / "dense").iterdir())) == 1


def test_compaction_drops_the_dead_and_keeps_vectors_exact(index: DenseIndex) -> None:
    vectors = unit_vectors(200)
    segments = [
        write(index, ids(1, 100), vectors[:100]),
        write(index, ids(101, 100), vectors[100:]),
    ]
    live = {ChunkId(i) for i in range(1, 201, 2)}
    merged = index.compact(COLLECTION, segments, live)
    assert merged is not None
    assert set(index.chunk_ids(COLLECTION, merged).tolist()) == live
    before = {hit.chunk_id: hit.score for hit in index.search(COLLECTION, segments, vectors[4], 200)}
    for hit in index.search(COLLECTION, [merged], vectors[4], 20):
        assert hit.score == pytest.approx(before[hit.chunk_id], abs=1e-6)


def test_compacting_the_dead_alone_gives_nothing(index: DenseIndex) -> None:
    segment = write(index, ids(1, 10), unit_vectors(10))
    assert index.compact(COLLECTION, [segment], set()) is None


def test_files_without_a_row_go_only_after_the_grace_period(tmp_path: Path) -> None:
    index = DenseIndex(tmp_path)
    old = write(index, ids(1, 10), unit_vectors(10))
    kept = write(index, ids(11, 10), unit_vectors(10))
    live: set[SegmentId] = {kept.id}
    assert index.collect_garbage(COLLECTION, live, now=1000.0) == []
    assert index.collect_garbage(COLLECTION, live, now=1599.0) == []
    assert index.search(COLLECTION, [old], unit_vectors(1)[0], 1)
    assert index.collect_garbage(COLLECTION, live, now=1601.0) == [old.id]
    assert not path_of(tmp_path, old).exists()
    assert path_of(tmp_path, kept).exists()


def test_a_row_that_appears_in_time_saves_its_file(tmp_path: Path) -> None:
    index = DenseIndex(tmp_path)
    segment = write(index, ids(1, 10), unit_vectors(10))
    index.collect_garbage(COLLECTION, set(), now=1000.0)
    index.collect_garbage(COLLECTION, {segment.id}, now=1300.0)
    assert index.collect_garbage(COLLECTION, set(), now=2000.0) == []
    assert path_of(tmp_path, segment).exists()


def test_the_cache_lets_go_of_the_least_recently_used(tmp_path: Path) -> None:
    index = DenseIndex(tmp_path, max_open=2)
    segments = [write(index, ids(10 * i + 1, 10), unit_vectors(10, seed=i)) for i in range(4)]
    assert len(index.search(COLLECTION, segments, unit_vectors(1)[0], 40)) == 40
    mapped = Path("/proc/self/maps").read_text()
    assert sum(str(path_of(tmp_path, segment)) in mapped for segment in segments) == 2
