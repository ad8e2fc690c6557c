from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from core.errors import Conflict, StoreCorrupt
from core.ids import ChunkId, CollectionId, DocumentId
from retrieval.file_lock import exclusive_lock
from retrieval.lexical_index import ChunkTexts, LexicalIndex

COLLECTION = CollectionId("col_1")
LARGE_ID = ChunkId(2**62 + 12345)
DOCUMENTS: ChunkTexts = {
    DocumentId("doc_1"): [
        (ChunkId(1), "刘备、关羽、张飞在桃园结义。"),
        (ChunkId(2), "The river runs to the sea."),
    ],
    DocumentId("doc_2"): [(LARGE_ID, "Running water: rivers and lakes.")],
}


@pytest.fixture
def index(tmp_path: Path) -> LexicalIndex:
    index = LexicalIndex(tmp_path, lock_timeout_seconds=0.2)
    index.write(COLLECTION, DOCUMENTS)
    return index


def found(index: LexicalIndex, query: str, limit: int = 10) -> list[int]:
    return [hit.chunk_id for hit in index.search(COLLECTION, query, limit).chunks]


def test_finds_english_by_stem_and_chinese_by_word(index: LexicalIndex) -> None:
    assert set(found(index, "river running")) == {2, LARGE_ID}
    assert found(index, "谁在桃园结义？") == [1]


def test_writing_again_changes_nothing(index: LexicalIndex) -> None:
    index.write(COLLECTION, DOCUMENTS)
    assert index.chunk_ids(COLLECTION) == {1, 2, LARGE_ID}
    assert found(index, "桃园") == [1]


def test_a_document_written_again_loses_its_old_chunks(index: LexicalIndex) -> None:
    index.write(COLLECTION, {DocumentId("doc_1"): [(ChunkId(9), "An entirely new text.")]})
    assert index.chunk_ids(COLLECTION) == {9, LARGE_ID}


def test_deleted_documents_are_gone(index: LexicalIndex) -> None:
    index.delete_documents(COLLECTION, [DocumentId("doc_1")])
    assert index.chunk_ids(COLLECTION) == {LARGE_ID}
    index.delete_documents(CollectionId("col_never"), [DocumentId("doc_1")])
    assert not index.exists(CollectionId("col_never"))


@pytest.mark.parametrize(
    "query", ['river" OR *', "body:river +sea -(", "document_id:doc_1", "\\", "river~2^9", "[a TO z]", "{!}"]
)
def test_nothing_in_a_question_is_syntax(index: LexicalIndex, query: str) -> None:
    assert set(found(index, query)) <= {2, LARGE_ID}


def test_unknown_words_and_blank_questions_find_nothing(index: LexicalIndex) -> None:
    for query in ("zeppelin", "", "？！"):
        hits = index.search(COLLECTION, query, 10)
        assert (hits.chunks, hits.coverage) == ([], 0.0)


def test_coverage_says_how_much_of_the_question_the_best_chunk_holds(index: LexicalIndex) -> None:
    whole = index.search(COLLECTION, "桃园结义", 10).coverage
    part = index.search(COLLECTION, "桃园结义 zeppelin airship voyage", 10).coverage
    assert 0.0 < part < whole <= 1.0


def test_a_filter_hides_other_documents_and_keeps_the_scores(index: LexicalIndex) -> None:
    everywhere = {hit.chunk_id: hit.score for hit in index.search(COLLECTION, "river sea", 10).chunks}
    for document_id, chunk_id in (("doc_1", 2), ("doc_2", LARGE_ID)):
        hits = index.search(COLLECTION, "river sea", 10, allowed=[DocumentId(document_id)])
        assert [hit.chunk_id for hit in hits.chunks] == [chunk_id]
        assert hits.chunks[0].score == pytest.approx(everywhere[ChunkId(chunk_id)])
        assert 0.0 < hits.coverage <= 1.0
    found = index.search(COLLECTION, "桃园结义", 10, allowed=[DocumentId("doc_2")])
    assert (found.chunks, found.coverage) == ([], 0.0)


def test_a_filter_finds_what_would_rank_far_below_the_limit(index: LexicalIndex) -> None:
    common = [(ChunkId(1000 + i), "租金 租金 租金 rent rent") for i in range(400)]
    index.write(COLLECTION, {DocumentId("doc_many"): common})
    index.write(
        COLLECTION, {DocumentId("doc_few"): [(ChunkId(9), "Among many other words: rent, 租金。" * 3)]}
    )
    for query in ("rent", "租金"):
        assert 9 not in found(index, query, 5)
        hits = index.search(COLLECTION, query, 5, allowed={DocumentId("doc_few"), DocumentId("doc_gone")})
        assert [hit.chunk_id for hit in hits.chunks] == [9]


def test_an_empty_filter_finds_nothing_even_where_there_is_no_index(index: LexicalIndex) -> None:
    assert index.search(COLLECTION, "river", 10, allowed=[]).chunks == []
    assert index.search(CollectionId("col_missing"), "river", 10, allowed=()).chunks == []


def test_another_reader_sees_a_commit_at_once(index: LexicalIndex, tmp_path: Path) -> None:
    reader = LexicalIndex(tmp_path)
    assert reader.search(COLLECTION, "zeppelin", 10).chunks == []
    index.write(COLLECTION, {DocumentId("doc_3"): [(ChunkId(7), "A zeppelin.")]})
    assert [hit.chunk_id for hit in reader.search(COLLECTION, "zeppelin", 10).chunks] == [7]


def test_the_limit_holds(index: LexicalIndex) -> None:
    assert len(found(index, "the river runs", 1)) == 1
    assert found(index, "river", 0) == []


def test_a_missing_or_damaged_index_says_how_to_mend_it(index: LexicalIndex, tmp_path: Path) -> None:
    (tmp_path / COLLECTION / "bm25" / "meta.json").write_text("{}")
    for collection_id in (COLLECTION, CollectionId("col_missing")):
        with pytest.raises(StoreCorrupt, match="doctor --repair"):
            index.search(collection_id, "river", 5)
    with pytest.raises(StoreCorrupt):
        index.write(COLLECTION, DOCUMENTS)


def test_a_lost_data_file_is_reported_not_raised_raw(tmp_path: Path) -> None:
    LexicalIndex(tmp_path).write(COLLECTION, DOCUMENTS)
    for path in (tmp_path / COLLECTION / "bm25").glob("*.idx"):
        path.unlink()
    with pytest.raises(StoreCorrupt):
        LexicalIndex(tmp_path).search(COLLECTION, "river", 5)


def test_rebuilding_mends_a_damaged_index(index: LexicalIndex, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / COLLECTION / "bm25")
    (tmp_path / COLLECTION / "bm25").mkdir()
    (tmp_path / COLLECTION / "bm25" / "meta.json").write_text("garbage")
    index.rebuild(COLLECTION, [(DocumentId("doc_1"), ChunkId(1), "桃园结义")])
    assert found(index, "桃园") == [1]
    index.rebuild(COLLECTION, [(DocumentId("doc_1"), ChunkId(3), "river")])
    assert index.chunk_ids(COLLECTION) == {3}


def test_a_writer_waits_and_then_says_who_is_in_the_way(index: LexicalIndex, tmp_path: Path) -> None:
    with (
        exclusive_lock(tmp_path / COLLECTION / "bm25.lock", timeout_seconds=1),
        pytest.raises(Conflict, match="still writing"),
    ):
        index.write(COLLECTION, DOCUMENTS)
    index.write(COLLECTION, DOCUMENTS)


def test_a_folder_whose_first_writer_has_not_made_the_index_yet_is_no_index(tmp_path: Path) -> None:
    (tmp_path / COLLECTION / "bm25").mkdir(parents=True)
    assert not LexicalIndex(tmp_path).exists(COLLECTION)
