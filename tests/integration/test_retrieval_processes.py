"""Several processes on the same index files, some of them killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from core.ids import ChunkId, CollectionId, DocumentId
from retrieval.dense_index import DenseIndex
from retrieval.lexical_index import LexicalIndex

COLLECTION = CollectionId("col_1")
spawn = multiprocessing.get_context("spawn")


def write_documents(folder: str, first: int, num: int) -> None:
    index = LexicalIndex(Path(folder))
    for i in range(first, first + num):
        index.write(COLLECTION, {DocumentId(f"doc_{i}"): [(ChunkId(i), f"river number {i} 长江")]})


def write_forever(folder: str) -> None:
    index, number = LexicalIndex(Path(folder)), 1
    while True:
        chunks = [(ChunkId(number * 1000 + i), f"river {i} 长江黄河") for i in range(50)]
        index.write(COLLECTION, {DocumentId(f"doc_{number}"): chunks})
        number += 1


def write_segments_forever(folder: str) -> None:
    index = DenseIndex(Path(folder))
    vectors = np.eye(64, dtype=np.float32)
    while True:
        ids = [ChunkId(i + 1) for i in range(64)]
        index.write(COLLECTION, ids, vectors, documents=[DocumentId("doc_1")] * 64)


def test_two_writers_and_a_reader_lose_nothing(tmp_path: Path) -> None:
    writers = [spawn.Process(target=write_documents, args=(str(tmp_path), first, 8)) for first in (1, 101)]
    for writer in writers:
        writer.start()
    reader, seen = LexicalIndex(tmp_path), 0
    while any(writer.is_alive() for writer in writers):
        if (tmp_path / COLLECTION / "bm25" / "meta.json").exists():
            found = len(reader.search(COLLECTION, "river", 100).chunks)
            assert found >= seen
            seen = found
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert reader.chunk_ids(COLLECTION) == {*range(1, 9), *range(101, 109)}


@pytest.mark.parametrize("seconds", [0.05, 0.2, 0.35])
def test_a_killed_writer_leaves_whole_documents_and_no_lock(tmp_path: Path, seconds: float) -> None:
    LexicalIndex(tmp_path).write(COLLECTION, {DocumentId("doc_0"): [(ChunkId(1), "mountain 泰山")]})
    _run_and_kill(write_forever, tmp_path, after=lambda: _has_more_than_one(tmp_path), seconds=seconds)
    index = LexicalIndex(tmp_path, lock_timeout_seconds=5)
    assert [hit.chunk_id for hit in index.search(COLLECTION, "泰山", 5).chunks] == [1]
    assert len(index.chunk_ids(COLLECTION)) % 50 == 1
    index.write(COLLECTION, {DocumentId("doc_last"): [(ChunkId(2), "泰山")]})
    assert 2 in index.chunk_ids(COLLECTION)


def test_a_killed_segment_writer_leaves_only_whole_files(tmp_path: Path) -> None:
    dense = tmp_path / COLLECTION / "dense"
    _run_and_kill(
        write_segments_forever, tmp_path, after=lambda: len(list(dense.glob("*.faiss"))) > 3, seconds=0.05
    )
    index = DenseIndex(tmp_path)
    index.collect_garbage(COLLECTION, set(), now=time.time() + 10_000)
    assert list(dense.glob("partial_*")) == []
    removed = index.collect_garbage(COLLECTION, set(), now=time.time() + 20_000)
    assert len(removed) > 3
    assert list(dense.iterdir()) == []


def _has_more_than_one(folder: Path) -> bool:
    return len(LexicalIndex(folder).chunk_ids(COLLECTION)) > 1


def _run_and_kill(target, folder: Path, *, after, seconds: float) -> None:  # type: ignore[no-untyped-def]
    process = spawn.Process(target=target, args=(str(folder),))
    process.start()
    deadline = time.monotonic() + 60
    while not after():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(seconds)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
