"""From uploaded files to documents that can be found, and through every kind of accident."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import func, select

from core.clock import utc_now
from core.errors import JobCancelled, LeaseLost, NotFound, UnreadableDocument
from core.ids import CollectionId, DocumentId, JobId, content_hash
from ingest.claims import claim_document
from ingest.parsers.limits import MAX_TEXT_BYTES
from retrieval.dense_index import DenseIndex
from retrieval.lexical_index import LexicalIndex
from retrieval.segments import list_segments
from storage.chunks import ChunkRepository
from storage.collections import CollectionRepository
from storage.database import Database
from storage.documents import DocumentRepository
from storage.embeddings import EmbeddingRepository
from storage.job_run import JobRun
from storage.jobs import JobQueue, JobRepository
from storage.models import Chunk, Document, Embedding, IndexSegment, Job, LedgerEntry, OutboxMessage
from storage.uploads import reused_tokens
from tests.documents import make_pdf
from tests.pipeline_fixtures import House, build_house

HANDBOOK = b"# Handbook\n\nPaid leave is twenty-four days a year.\n\nThe office closes at six.\n"
NOVEL = "第一回 桃园结义\n\n念刘备、关羽、张飞，虽然异姓，既结为兄弟。\n\n关云长造青龙偃月刀，又名冷艳锯，重八十二斤。\n".encode()


@pytest.fixture
def house(database: Database, tmp_path: Path) -> House:
    return build_house(database, tmp_path / "home")


def run(house: House, job_id: JobId) -> None:
    while house.ingest.run(house.claim(job_id)) == "yielded":
        raise AssertionError("a small upload fits one slice")


def count(house: House, model: type) -> int:
    with house.database.read() as session:
        return int(session.execute(select(func.count()).select_from(model)).scalar_one())


def search(house: House, question: str) -> list[str]:
    result = house.retrieval.search(house.principal.tenant_id, house.collection_id, question)
    return [passage.text for passage in result.passages]


def test_a_batch_becomes_findable_and_each_file_tells_its_outcome(house: House) -> None:
    job_id = house.upload(
        {
            "handbook.md": HANDBOOK,
            "三国.txt": NOVEL,
            "paper.pdf": make_pdf([["Neptune has fourteen moons."], ["第二页写着答案。"]]),
            "broken.pdf": b"%PDF-1.7 garbage",
            "blank.txt": b" \n\t\n",
        }
    )
    run(house, job_id)
    outcome = {file.name: (file.status, file.error_code) for file in house.files(job_id)}
    assert outcome["handbook.md"] == outcome["三国.txt"] == outcome["paper.pdf"] == ("ready", None)
    assert outcome["broken.pdf"] == ("failed", "unreadable_document")
    assert outcome["blank.txt"] == ("failed", "empty_document")
    assert "twenty-four" in search(house, "How many days of paid leave?")[0]
    assert "八十二斤" in search(house, "青龙偃月刀重多少斤？")[0]
    with house.database.read() as session:
        job = session.get_one(Job, job_id)
        assert job.status == "succeeded"
        assert job.progress["files_done"] == job.progress["files_total"] == 5


def test_chunks_quote_the_stored_pages_letter_by_letter(house: House) -> None:
    job_id = house.upload({"paper.pdf": make_pdf([["Page one."], ["Page two 第二页。"], ["Page three."]])})
    run(house, job_id)
    document_id = DocumentId(str(house.files(job_id)[0].document_id))
    with house.database.read() as session:
        documents = DocumentRepository(session, house.principal.tenant_id)
        assert [page.number for page in documents.list_pages(document_id)] == [1, 2, 3]
        for chunk in session.scalars(select(Chunk)):
            assert documents.read_text(document_id, chunk.start, chunk.end) == chunk.text
            assert documents.find_pages(document_id, chunk.start, chunk.end) == (
                chunk.first_page,
                chunk.last_page,
            )


def test_the_same_bytes_again_are_a_duplicate_that_costs_nothing(house: House) -> None:
    run(house, house.upload({"handbook.md": HANDBOOK}))
    lines, embedded = count(house, LedgerEntry), len(house.embedder.passages_embedded)
    again = house.upload({"renamed.md": HANDBOOK})
    run(house, again)
    (file,) = house.files(again)
    assert file.status == "duplicate"
    assert file.document_id is not None
    assert count(house, Document) == 1
    assert (count(house, LedgerEntry), len(house.embedder.passages_embedded)) == (lines, embedded)
    with house.database.read() as session:
        assert reused_tokens(session, house.principal.tenant_id) == {
            (house.embedder.name, house.embedder.revision): session.scalar(select(func.sum(Chunk.num_tokens)))
        }


def test_the_same_bytes_twice_in_one_upload_are_one_document(house: House) -> None:
    job_id = house.upload({"a.md": HANDBOOK, "b.md": HANDBOOK})
    run(house, job_id)
    assert [file.status for file in house.files(job_id)] == ["ready", "duplicate"]
    assert count(house, Document) == 1


def test_the_same_text_in_another_collection_is_indexed_without_computing_anything(house: House) -> None:
    run(house, house.upload({"handbook.md": HANDBOOK}))
    with house.database.write() as session:
        other = CollectionRepository(session, house.principal.tenant_id).create("other")
    before, lines = len(house.embedder.passages_embedded), count(house, LedgerEntry)
    job_id = house.upload({"handbook.md": HANDBOOK}, collection_id=CollectionId(other.id))
    run(house, job_id)
    assert house.files(job_id)[0].status == "ready"
    assert len(house.embedder.passages_embedded) == before
    assert count(house, LedgerEntry) == lines


def test_a_worker_killed_after_embedding_loses_nothing_and_bills_once(
    house: House,
) -> None:
    job_id = house.upload({"handbook.md": HANDBOOK, "三国.txt": NOVEL})
    claimed = house.claim(job_id)
    checks = 0

    def die() -> None:  # as SIGKILL does: nothing after this line runs
        nonlocal checks
        checks += 1
        if count(house, Embedding) > 0:
            raise SystemExit

    with pytest.raises(SystemExit):
        house.ingest.run(JobRun(job=claimed.job, owner=claimed.owner, checkpoint=die))
    embedded = list(house.embedder.passages_embedded)
    assert embedded
    assert search(house, "paid leave") == []
    house.lose_worker(job_id)
    run(house, job_id)
    assert [file.status for file in house.files(job_id)] == ["ready", "ready"]
    assert len(house.embedder.passages_embedded) == len(set(house.embedder.passages_embedded))
    texts = list(house.embedder.passages_embedded)
    with house.database.read() as session:
        billed = session.execute(select(func.sum(LedgerEntry.num_tokens))).scalar_one()
    assert billed == sum(house.embedder.embed_passages(texts).num_tokens)
    assert count(house, Document) == 2


def test_a_file_that_kills_its_worker_three_times_fails_alone(house: House) -> None:
    job_id = house.upload({"killer.md": HANDBOOK, "三国.txt": NOVEL})
    for attempt in (1, 2, 3):
        claimed = house.claim(job_id)

        def die(attempt: int = attempt) -> None:
            killer = house.files(job_id)[0]
            if (killer.status, killer.attempts) == ("embedding", attempt):
                raise SystemExit

        with pytest.raises(SystemExit):
            house.ingest.run(JobRun(job=claimed.job, owner=claimed.owner, checkpoint=die))
        house.lose_worker(job_id)
    run(house, job_id)
    killer, novel = house.files(job_id)
    assert (killer.status, novel.status) == ("failed", "ready")
    assert "3 times" in str(killer.error_detail)


def test_the_neighbours_of_a_file_that_kills_its_worker_are_indexed(house: House) -> None:
    job_id = house.upload({"三国.txt": NOVEL, "killer.md": HANDBOOK})

    for attempt in (1, 2, 3):
        claimed = house.claim(job_id)

        def die(attempt: int = attempt) -> None:
            killer = house.files(job_id)[1]
            if (killer.status, killer.attempts) == ("embedding", attempt):
                raise SystemExit

        with pytest.raises(SystemExit):
            house.ingest.run(JobRun(job=claimed.job, owner=claimed.owner, checkpoint=die))
        house.lose_worker(job_id)
    run(house, job_id)
    assert [file.status for file in house.files(job_id)] == ["ready", "failed"]


def test_a_file_of_too_much_text_or_whose_blob_is_gone_fails_alone(house: House) -> None:
    job_id = house.upload(
        {"vast.txt": b"a" * (MAX_TEXT_BYTES + 1), "lost.md": HANDBOOK, "三国.txt": NOVEL},
    )
    house.blobs.remove(
        house.principal.tenant_id, content_hash(HANDBOOK), before=utc_now() + timedelta(minutes=1)
    )
    run(house, job_id)
    outcome = [(file.status, file.error_code) for file in house.files(job_id)]
    assert outcome == [("failed", "too_large"), ("failed", "not_found"), ("ready", None)]


def test_an_unreadable_document_deleted_meanwhile_disturbs_no_other_file(house: House) -> None:
    job_id = house.upload({"blank.pdf": make_pdf([[""]] * 30), "三国.txt": NOVEL})
    claimed = house.claim(job_id)

    def delete() -> None:
        file = house.files(job_id)[0]
        with house.database.write() as session:
            if file.pages_done == 0 and file.document_id and count(house, Document) == 1:
                document = session.get_one(Document, file.document_id)
                document.deleted_at = document.deleted_at or utc_now()

    assert house.ingest.run(JobRun(job=claimed.job, owner=claimed.owner, checkpoint=delete)) == "done"
    assert [file.status for file in house.files(job_id)] == ["failed", "ready"]


def test_nothing_becomes_findable_in_a_collection_deleted_meanwhile(house: House) -> None:
    job_id = house.upload({"handbook.md": HANDBOOK, "三国.txt": NOVEL})
    claimed = house.claim(job_id)

    def delete() -> None:
        with house.database.write() as session:
            collections = CollectionRepository(session, house.principal.tenant_id)
            if house.files(job_id)[0].document_id and collections.find_by_name("papers"):
                collections.delete(house.collection_id)

    with pytest.raises(NotFound, match=house.collection_id):
        house.ingest.run(JobRun(job=claimed.job, owner=claimed.owner, checkpoint=delete))
    with house.database.read() as session:
        assert session.scalars(select(Document).where(Document.deleted_at.is_(None))).all() == []
    assert count(house, Chunk) == count(house, IndexSegment) == 0


def tags_by_name(house: House) -> dict[str, tuple[str, ...]]:
    with house.database.read() as session:
        documents = session.scalars(select(Document).where(Document.deleted_at.is_(None))).all()
        ids = [DocumentId(each.id) for each in documents]
        tags = DocumentRepository(session, house.principal.tenant_id).tags_of(ids)
    return {each.name: tags.get(DocumentId(each.id), ()) for each in documents}


def test_documents_get_the_tags_of_their_upload_and_gain_those_of_the_next(house: House) -> None:
    run(house, house.upload({"handbook.md": HANDBOOK, "三国.txt": NOVEL}, tags=["Books", "小说"]))
    assert tags_by_name(house) == {"handbook.md": ("books", "小说"), "三国.txt": ("books", "小说")}
    again = house.upload({"copy.md": HANDBOOK}, tags=["work", "BOOKS"])
    run(house, again)
    assert [file.status for file in house.files(again)] == ["duplicate"]
    assert tags_by_name(house)["handbook.md"] == ("books", "work", "小说")
    run(house, house.upload({"untagged.md": HANDBOOK}))
    assert tags_by_name(house)["handbook.md"] == ("books", "work", "小说")


def test_tags_beyond_the_room_are_left_out_and_named(house: House) -> None:
    for tags in ([f"a{i}" for i in range(32)], ["a0", "满", "full"]):
        run(house, house.upload({"handbook.md": HANDBOOK}, tags=tags))
    assert len(tags_by_name(house)["handbook.md"]) == 32
    with house.database.read() as session:
        warnings = session.scalars(select(Document)).one().warnings
    assert len(warnings) == 1
    assert "满, full" in warnings[0]


def test_an_unreadable_file_keeps_its_tags_for_the_next_attempt(house: House) -> None:
    run(house, house.upload({"broken.pdf": b"%PDF-1.7 garbage"}, tags=["合同"]))
    assert tags_by_name(house) == {"broken.pdf": ("合同",)}


def test_a_filter_keeps_both_indexes_to_its_documents(house: House) -> None:
    run(house, house.upload({"handbook.md": HANDBOOK}, tags=["work"]))
    run(house, house.upload({"三国.txt": NOVEL}, tags=["小说"]))
    with house.database.read() as session:
        documents = DocumentRepository(session, house.principal.tenant_id)
        novels = documents.find_filtered(house.collection_id, tags=["小说"])
        segments = list_segments(
            session, house.principal.tenant_id, house.collection_id, house.embedder.revision
        )
        chunks = ChunkRepository(session, house.principal.tenant_id).list_live(house.collection_id)
        wanted = {chunk.id for chunk in chunks if chunk.document_id in novels}
    query = house.embedder.embed_queries(["office 桃园"]).vectors[0]
    dense, lexical = DenseIndex(house.settings.index_dir), LexicalIndex(house.settings.index_dir)
    hits = dense.search(house.collection_id, segments, query, 50, allowed=novels)
    assert {hit.chunk_id for hit in hits} == wanted
    found = lexical.search(house.collection_id, "office 桃园", 50, allowed=novels)
    assert found.chunks
    assert {hit.chunk_id for hit in found.chunks} <= wanted


def claim_side_by_side(house: House, first: JobId, second: JobId) -> list[str]:
    """What two workers get whose transactions overlap as far as the database allows."""
    outcomes: list[str] = []

    def claim_second() -> None:
        with house.database.write() as session:
            file = house.files(second)[0]
            outcomes.append(claim_document(session, house.principal.tenant_id, file, max_attempts=3).status)

    thread = threading.Thread(target=claim_second)
    with house.database.write() as session:
        file = house.files(first)[0]
        outcomes.append(claim_document(session, house.principal.tenant_id, file, max_attempts=3).status)
        thread.start()
        time.sleep(0.3)
    thread.join()
    return outcomes


def test_two_workers_with_the_same_bytes_make_one_document(house: House) -> None:
    first, second = house.upload({"a.md": HANDBOOK}), house.upload({"b.md": HANDBOOK})
    assert claim_side_by_side(house, first, second) == ["taken", "busy"]
    assert count(house, Document) == 1


def test_two_workers_do_not_both_try_a_failed_document_again(house: House) -> None:
    failed = house.upload({"a.md": HANDBOOK})
    claimed = house.claim(failed)
    with house.database.write() as session:
        claim_document(session, house.principal.tenant_id, house.files(failed)[0], max_attempts=3)
        JobQueue(session).finish(failed, claimed.owner, error=UnreadableDocument("Damaged."))
    first, second = house.upload({"b.md": HANDBOOK}), house.upload({"c.md": HANDBOOK})
    assert claim_side_by_side(house, first, second) == ["taken", "busy"]


def test_a_worker_that_was_only_slow_changes_nothing_after_another_took_over(house: House) -> None:
    job_id = house.upload({"handbook.md": HANDBOOK})
    slow = house.claim(job_id)

    def stall() -> None:
        if house.files(job_id)[0].status == "embedding":
            house.lose_worker(job_id)
            run(house, job_id)

    with pytest.raises(LeaseLost):
        house.ingest.run(JobRun(job=slow.job, owner=slow.owner, checkpoint=stall))
    assert house.files(job_id)[0].status == "ready"
    assert "twenty-four" in search(house, "How many days of paid leave?")[0]


def test_workers_that_store_the_same_vectors_at_once_do_not_wait_for_each_other(house: House) -> None:
    hashes = [content_hash(str(i)) for i in range(300)]
    vector = np.ones(4, dtype=np.float32)
    start, added = threading.Barrier(2), []

    def store(order: list[str]) -> None:
        with house.database.write() as session:
            embeddings = EmbeddingRepository(session, house.principal.tenant_id)
            if not house.database.is_sqlite:  # SQLite lets in one after the other
                start.wait()
            added.append(embeddings.add("model", dict.fromkeys(order, vector)))

    threads = [threading.Thread(target=store, args=(order,)) for order in (hashes, hashes[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(len, added)) == [0, 300]


def test_a_cancelled_upload_leaves_its_documents_unfindable_and_open_to_another_try(house: House) -> None:
    job_id = house.upload({"handbook.md": HANDBOOK})
    claimed = house.claim(job_id)
    with house.database.write() as session:
        JobRepository(session, house.principal.tenant_id).request_cancel(job_id)
    with pytest.raises(JobCancelled):
        house.ingest.run(claimed)
    with house.database.write() as session:
        JobQueue(session).finish(job_id, claimed.owner)
    assert house.files(job_id)[0].status == "failed"
    assert search(house, "paid leave") == []
    again = house.upload({"handbook.md": HANDBOOK})
    house.lose_worker(job_id)
    run(house, again)
    assert house.files(again)[0].status == "ready"


def test_a_document_deleted_while_it_is_indexed_stays_deleted(house: House) -> None:
    job_id = house.upload({"handbook.md": HANDBOOK})
    claimed = house.claim(job_id)
    deleted = False

    def delete() -> None:
        nonlocal deleted
        file = house.files(job_id)[0]
        if file.document_id and not deleted:
            with house.database.write() as session:
                DocumentRepository(session, house.principal.tenant_id).delete(DocumentId(file.document_id))
            deleted = True

    house.ingest.run(JobRun(job=claimed.job, owner=claimed.owner, checkpoint=delete))
    assert deleted
    assert house.files(job_id)[0].error_code == "document_deleted"
    assert search(house, "paid leave") == []


def test_a_deleted_document_is_unfindable_at_once_and_can_come_back(house: House) -> None:
    job_id = house.upload({"handbook.md": HANDBOOK})
    run(house, job_id)
    with house.database.write() as session:
        DocumentRepository(session, house.principal.tenant_id).delete(
            DocumentId(str(house.files(job_id)[0].document_id))
        )
    assert search(house, "paid leave") == []
    run(house, house.upload({"handbook.md": HANDBOOK}))
    assert search(house, "paid leave")


def test_small_files_of_an_upload_share_an_index_segment(house: House) -> None:
    run(house, house.upload({f"{i}.md": f"# Note {i}\n\nThe number is {i}.".encode() for i in range(20)}))
    assert count(house, Document) == 20
    assert count(house, IndexSegment) <= 3


def test_another_jobs_live_document_is_waited_for(house: House) -> None:
    first, second = house.upload({"a.md": HANDBOOK}), house.upload({"b.md": HANDBOOK})
    claimed = house.claim(first)
    outcomes: list[str] = []

    def meanwhile() -> None:
        if house.files(first)[0].document_id and not outcomes:
            outcomes.append("asked")
            outcomes.append(house.ingest.run(house.claim(second)))

    house.ingest.run(JobRun(job=claimed.job, owner=claimed.owner, checkpoint=meanwhile))
    assert outcomes == ["asked", "yielded"]
    assert house.files(first)[0].status == "ready"
    assert count(house, Document) == 1


def test_many_small_uploads_ask_for_one_compaction_which_loses_nothing(house: House) -> None:
    for i in range(9):
        run(house, house.upload({f"{i}.md": f"# Note {i}\n\nThe secret number is {i}.".encode()}))
    with house.database.read() as session:
        queued = session.scalars(select(Job).where(Job.kind == "compact")).all()
    assert [job.status for job in queued] == ["queued"]
    assert house.compaction.run(house.claim(JobId(queued[0].id))) == "done"
    assert count(house, IndexSegment) <= 2
    assert "number is 7" in search(house, "Which note has the secret number 7?")[0]
    with house.database.read() as session:
        later = session.scalars(select(Job).where(Job.kind == "compact", Job.status == "queued")).all()
        assert len(later) == 1, "the merged files are removed once no search can still be reading them"
        (message,) = session.scalars(select(OutboxMessage).where(OutboxMessage.job_id == later[0].id))
        assert message.available_at > utc_now() + timedelta(minutes=5)
