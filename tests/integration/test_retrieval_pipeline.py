from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select, update

from accounting.ledger import Ledger
from accounting.price_book import load_price_book
from accounting.price_sync import sync_price_book
from core.clock import utc_now
from core.errors import Conflict, EmptyInput, StoreCorrupt
from core.ids import ChunkId, CollectionId, DocumentId, TenantId, content_hash, derive_chunk_id, new_id
from inference.protocols import RerankScores
from retrieval.dense_index import DenseIndex
from retrieval.filters import DocumentFilter
from retrieval.index_writer import IndexedChunk, IndexWriter
from retrieval.indexed_text import embedding_key, embedding_text
from retrieval.lexical_index import LexicalIndex
from retrieval.maintenance import IndexMaintenance
from retrieval.pipeline import RetrievalPipeline
from retrieval.segments import list_segments, swap_segments
from retrieval.sentence_vectors import SentenceVectors
from storage.chunks import ChunkRepository
from storage.collections import CollectionRepository
from storage.database import Database
from storage.documents import DocumentRepository
from storage.embeddings import EmbeddingRepository
from storage.index_segments import IndexSegmentRepository
from storage.models import Chunk, IndexSegment, LedgerEntry, Page, Tenant
from tests.hashing_embedder import HashingEmbedder

TALE = "刘备、关羽、张飞桃园结义。 关羽造青龙偃月刀，重八十二斤。 张飞造丈八点钢矛。"
GUIDE = "The package manager installs software. Mirrors are listed in sources.list. Upgrade it weekly."


class WordReranker:
    """Puts first what holds one word."""

    name, revision = "words", "1"

    def __init__(self, word: str) -> None:
        self._word = word

    def rerank(self, question: str, passages: Sequence[str]) -> RerankScores:
        scores = np.array([float(self._word in passage) for passage in passages], dtype=np.float32)
        return RerankScores(scores, num_tokens=3, seconds=0.0)


@dataclass
class House:
    """A tenant's collection and the rooms that search it."""

    database: Database
    folder: Path
    embedder: HashingEmbedder
    tenant_id: TenantId
    collection_id: CollectionId

    def __post_init__(self) -> None:
        self.dense, self.lexical = DenseIndex(self.folder), LexicalIndex(self.folder)
        self.writer = IndexWriter(dense=self.dense, lexical=self.lexical)
        parts: dict[str, Any] = {"database": self.database, "embedder": self.embedder}
        self.pipeline = RetrievalPipeline(**parts, dense=self.dense, lexical=self.lexical)
        self.maintenance = IndexMaintenance(**parts, dense=self.dense, lexical=self.lexical, ledger=Ledger())

    def add(self, name: str, text: str, *, commit: bool = True) -> DocumentId:
        """Ingest `text`, one chunk a sentence, without the white space between them."""
        pieces = [piece for piece in text.split(" ") if piece] if "。" in text else text.split(". ")
        with self.database.write() as session:
            document = DocumentRepository(session, self.tenant_id).create(
                self.collection_id, name=name, content_hash=content_hash(name + text), num_bytes=len(text)
            )
            document_id = DocumentId(document.id)
        chunks = list(self._chunks(document_id, text, pieces))
        texts = [embedding_text(name, chunk.headings, chunk.text) for chunk in chunks]
        vectors = self.embedder.embed_passages(texts).vectors
        segment = self.writer.index(
            self.collection_id,
            [IndexedChunk(ChunkId(c.id), document_id, t) for c, t in zip(chunks, texts, strict=True)],
            vectors,
        )
        if not commit:
            return document_id
        keys = [embedding_key(name, chunk.headings, chunk.text) for chunk in chunks]
        with self.database.write() as session:
            documents = DocumentRepository(session, self.tenant_id)
            row = documents.get(document_id)
            row.title, row.status = name, "ready"
            page = Page(
                document_id=document_id,
                number=1,
                tenant_id=self.tenant_id,
                start=0,
                end=len(text),
                text=text,
            )
            session.add(page)
            ChunkRepository(session, self.tenant_id).replace(document_id, chunks)
            EmbeddingRepository(session, self.tenant_id).add(
                self.embedder.revision, dict(zip(keys, vectors, strict=True))
            )
            IndexSegmentRepository(session, self.tenant_id).add(
                segment.id,
                self.collection_id,
                model_revision=self.embedder.revision,
                kind=segment.kind,
                num_vectors=segment.num_vectors,
            )
        return document_id

    def delete(self, document_id: DocumentId) -> None:
        with self.database.write() as session:
            DocumentRepository(session, self.tenant_id).delete(document_id)

    def names(self, question: str, **options: Any) -> list[str]:
        found = self.pipeline.search(self.tenant_id, self.collection_id, question, **options)
        return [passage.document_name for passage in found.passages]

    def num_segments(self) -> int:
        with self.database.read() as session:
            rows = IndexSegmentRepository(session, self.tenant_id).list_live(
                self.collection_id, self.embedder.revision
            )
            return len(rows)

    def _chunks(self, document_id: DocumentId, text: str, pieces: list[str]) -> Iterator[Chunk]:
        start = 0
        for position, piece in enumerate(pieces):
            start = text.index(piece, start)
            yield Chunk(
                id=derive_chunk_id(document_id, position, piece),
                tenant_id=self.tenant_id,
                collection_id=self.collection_id,
                document_id=document_id,
                position=position,
                start=start,
                end=start + len(piece),
                first_page=1,
                last_page=1,
                headings=[],
                text=piece,
                num_tokens=10,
                num_generator_tokens=10,
            )


@pytest.fixture
def house(database: Database, tmp_path: Path) -> House:
    tenant_id = TenantId(new_id("ten"))
    with database.write() as session:
        session.add(Tenant(id=tenant_id, name="one"))
        sync_price_book(session, load_price_book(), now=utc_now())
        session.flush()
        collection = CollectionRepository(session, tenant_id).create("library")
    return House(database, tmp_path / "indexes", HashingEmbedder(), tenant_id, CollectionId(collection.id))


def test_finds_in_both_languages_and_says_where(house: House) -> None:
    house.add("tale", TALE)
    house.add("guide", GUIDE)
    found = house.pipeline.search(house.tenant_id, house.collection_id, "青龙偃月刀重多少斤？")
    best = found.passages[0]
    assert best.document_name == "tale"
    assert best.text == TALE[best.start : best.end]
    assert (best.dense_rank, best.lexical_rank) == (1, 1)
    assert found.num_query_tokens > 0
    assert set(found.seconds) == {"embed", "dense", "lexical", "load", "fuse", "rerank"}
    assert house.names("where are mirrors listed", num_passages=1) == ["guide"]


def test_adjoining_chunks_come_back_with_the_sources_own_white_space(house: House) -> None:
    house.add("guide", GUIDE)
    (passage,) = house.pipeline.search(house.tenant_id, house.collection_id, "package mirrors").passages
    assert passage.text == GUIDE[passage.start : passage.end]
    assert ". Mirrors" in passage.text


def test_an_empty_collection_answers_with_nothing_and_computes_nothing(house: House) -> None:
    assert house.names("anything") == []
    assert house.embedder.queries_embedded == []


def test_a_blank_question_is_refused(house: House) -> None:
    with pytest.raises(EmptyInput):
        house.names("  \n")


def test_what_was_written_but_not_committed_is_not_found(house: House) -> None:
    house.add("tale", TALE)
    house.add("ghost", "关羽造青龙偃月刀，重八十二斤。", commit=False)
    assert house.names("青龙偃月刀") == ["tale"]


def test_a_deleted_document_is_unfindable_at_once(house: House) -> None:
    document_id = house.add("tale", TALE)
    house.add("guide", GUIDE)
    house.delete(document_id)
    assert "tale" not in house.names("关羽的青龙偃月刀")


def test_another_tenant_finds_nothing(house: House) -> None:
    house.add("tale", TALE)
    with house.database.write() as session:
        session.add(Tenant(id="ten_other", name="other"))
    found = house.pipeline.search(TenantId("ten_other"), house.collection_id, "关羽")
    assert found.passages == ()


def test_looks_deeper_when_the_dead_crowd_out_the_living(house: House) -> None:
    dead = [house.add(f"dead-{i}", "关羽造青龙偃月刀。") for i in range(30)]
    house.add("alive", "关羽造青龙偃月刀，后来失传了，无人知道它在何处，也无人再见过它。")
    for document_id in dead:
        house.delete(document_id)
    assert house.names("关羽造青龙偃月刀", num_candidates=5) == ["alive"]


def test_diagnosis_of_a_sound_collection_has_tombstones_at_most(house: House) -> None:
    house.add("tale", TALE)
    house.delete(house.add("guide", GUIDE))
    diagnosis = house.maintenance.diagnose(house.tenant_id, house.collection_id)
    assert diagnosis.is_healthy
    assert (diagnosis.num_chunks, diagnosis.num_dead_dense, diagnosis.num_dead_lexical) == (3, 3, 3)


def test_a_lost_index_is_diagnosed_and_rebuilt_without_embedding_anything(house: House) -> None:
    house.add("tale", TALE)
    house.add("guide", GUIDE)
    for path in (*house.folder.rglob("*.faiss"), *house.folder.rglob("meta.json")):
        path.unlink()
    fresh = House(house.database, house.folder, house.embedder, house.tenant_id, house.collection_id)
    with pytest.raises(StoreCorrupt):
        fresh.names("关羽")
    diagnosis = fresh.maintenance.diagnose(house.tenant_id, house.collection_id)
    assert (len(diagnosis.corrupt), len(diagnosis.missing_dense)) == (3, 6)
    embedded = len(house.embedder.passages_embedded)
    rebuilt = fresh.maintenance.rebuild(house.tenant_id, house.collection_id)
    assert (rebuilt.num_chunks, rebuilt.num_embedded_chunks) == (6, 0)
    assert len(house.embedder.passages_embedded) == embedded
    assert fresh.maintenance.diagnose(house.tenant_id, house.collection_id).num_differences == 0
    assert fresh.names("青龙偃月刀", num_passages=1) == ["tale"]
    assert fresh.num_segments() == 1


def test_rebuilding_for_another_model_embeds_and_says_what_it_cost(house: House) -> None:
    house.add("tale", TALE)
    other = HashingEmbedder(dimension=128, revision="hashing-2")
    moved = House(house.database, house.folder, other, house.tenant_id, house.collection_id)
    rebuilt = moved.maintenance.rebuild(house.tenant_id, house.collection_id)
    assert rebuilt.num_embedded_chunks == 3
    assert rebuilt.num_embedded_tokens > 0
    with house.database.read() as session:
        entry = session.scalars(select(LedgerEntry)).one()
    assert (entry.num_tokens, entry.billed, entry.reason) == (rebuilt.num_embedded_tokens, False, "repair")
    assert moved.names("关羽", num_passages=1) == ["tale"]


def test_compaction_merges_small_segments_and_hides_nothing(house: House) -> None:
    for i in range(9):
        house.add(f"tale-{i}", f"{TALE} 第{i}卷完。")
    doomed = house.add("doomed", TALE)
    house.delete(doomed)
    before = house.names("青龙偃月刀重多少斤", num_passages=20)
    merged = house.maintenance.compact(house.tenant_id, house.collection_id)
    assert merged is not None
    assert house.num_segments() == 1
    assert house.names("青龙偃月刀重多少斤", num_passages=20) == before
    diagnosis = house.maintenance.diagnose(house.tenant_id, house.collection_id)
    assert (diagnosis.num_differences, diagnosis.num_dead_dense) == (0, 0)
    assert house.maintenance.compact(house.tenant_id, house.collection_id) is None


def test_a_collection_of_the_dead_compacts_to_nothing(house: House) -> None:
    house.delete(house.add("tale", TALE))
    assert house.maintenance.compact(house.tenant_id, house.collection_id) is None
    assert house.num_segments() == 0
    assert house.names("关羽") == []


def test_compaction_leaves_the_segments_of_another_embedder_alone(house: House) -> None:
    house.add("tale", TALE)
    with house.database.write() as session:
        session.execute(update(IndexSegment).values(model_revision="another"))
    house.maintenance.compact(house.tenant_id, house.collection_id)
    assert not house.maintenance.has_garbage(house.collection_id)


def test_a_merge_that_another_process_finished_first_changes_nothing(house: House) -> None:
    house.add("tale", TALE)
    with house.database.read() as session:
        old = list_segments(session, house.tenant_id, house.collection_id, house.embedder.revision)
    house.maintenance.rebuild(house.tenant_id, house.collection_id)
    late = house.dense.compact(house.collection_id, old, {ChunkId(1)})
    with pytest.raises(Conflict), house.database.write() as session:
        swap_segments(
            session,
            house.tenant_id,
            house.collection_id,
            house.embedder.revision,
            old=old,
            new=[late] if late else [],
        )
    assert house.num_segments() == 1
    assert house.names("关羽") == ["tale"]


@pytest.mark.parametrize(("asked", "other"), [("关羽的刀重多少？", "Where are mirrors listed?")])
def test_several_queries_find_what_each_of_them_finds(house: House, asked: str, other: str) -> None:
    house.add("tale", TALE)
    house.add("guide", GUIDE)
    found = house.pipeline.search(
        house.tenant_id, house.collection_id, asked, queries=[other, asked, " "], num_passages=2
    )
    assert {passage.document_name for passage in found.passages} == {"tale", "guide"}
    assert house.embedder.queries_embedded[-2:] == [asked, other]
    alone = house.pipeline.search(house.tenant_id, house.collection_id, asked)
    assert found.num_query_tokens > alone.num_query_tokens
    assert found.coverage == alone.coverage  # of the question itself


def test_a_filter_leaves_only_its_documents_and_may_leave_none(house: House) -> None:
    tale = house.add("tale", TALE)
    house.add("guide", GUIDE)

    def names(filter: DocumentFilter) -> set[str]:
        found = house.pipeline.search(
            house.tenant_id, house.collection_id, "Where are mirrors listed?", filter=filter
        )
        return {passage.document_name for passage in found.passages}

    assert names(DocumentFilter()) >= {"guide"}
    assert names(DocumentFilter(document_ids=(tale,))) == {"tale"}
    assert names(DocumentFilter(uploaded_before=datetime(2020, 1, 1, tzinfo=UTC))) == set()


def test_reranking_reports_its_cost_and_can_be_left_out(house: House) -> None:
    house.add("tale", TALE)
    house.add("guide", GUIDE)
    vectors = SentenceVectors(house.embedder)
    arguments = (house.tenant_id, house.collection_id, "Where are mirrors listed?")
    reranked = house.pipeline.search(*arguments, vectors=vectors)
    (use,) = reranked.rerank_uses
    assert (use.model, use.model_revision) == (house.embedder.name, house.embedder.revision)
    assert use.num_tokens > 0
    assert vectors.take_use().num_tokens == 0  # taken already
    plain = house.pipeline.search(*arguments, rerank=False)
    assert plain.rerank_uses == ()
    assert plain.seconds["rerank"] == 0.0
    assert [chunk.fused_rank for chunk in plain.ranking] == list(range(1, len(plain.ranking) + 1))
    assert {c.chunk_id for c in plain.ranking} == {c.chunk_id for c in reranked.ranking}


def test_a_cross_encoder_reranks_where_there_is_one(house: House) -> None:
    house.add("tale", TALE)
    house.add("guide", GUIDE)
    pipeline = RetrievalPipeline(
        database=house.database,
        embedder=house.embedder,
        dense=house.dense,
        lexical=house.lexical,
        reranker=WordReranker("张飞"),
    )
    found = pipeline.search(house.tenant_id, house.collection_id, "关羽")
    assert "张飞" in found.passages[0].text
    assert [use.model for use in found.rerank_uses] == ["words"]


def test_copies_of_a_document_fill_one_passage(house: House) -> None:
    for i in range(8):
        house.add(f"copy {i}", TALE)
    house.add("guide", GUIDE)
    found = house.pipeline.search(house.tenant_id, house.collection_id, "关羽造青龙偃月刀", rerank=False)
    texts = [passage.text for passage in found.passages]
    assert len(texts) == len(set(texts))
    assert found.num_duplicates >= 7
