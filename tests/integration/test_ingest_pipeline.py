"""From uploaded files to documents that can be found, and through every kind of accident."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import func, select

from core.errors import JobCancelled
from core.ids import CollectionId, DocumentId, JobId
from storage.collections import CollectionRepository
from storage.database import Database
from storage.documents import DocumentRepository
from storage.job_run import JobRun
from storage.jobs import JobRepository
from storage.models import Chunk, Document, Embedding, IndexSegment, Job, LedgerEntry
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


def test_a_cancelled_upload_leaves_its_documents_unfindable_and_open_to_another_try(house: House) -> None:
    job_id = house.upload({"handbook.md": HANDBOOK})
    claimed = house.claim(job_id)
    with house.database.write() as session:
        JobRepository(session, house.principal.tenant_id).request_cancel(job_id)
    with pytest.raises(JobCancelled) as caught:
        house.ingest.run(claimed)
    house.ingest.abandon(claimed.job, caught.value)
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
