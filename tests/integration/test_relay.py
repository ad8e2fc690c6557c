"""The relay between rows and broker, and what it tidies up, on both databases."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from accounting.ledger import Ledger, LedgerLine
from accounting.rollups import GRAINS
from accounting.stages import Stage
from bootstrap.api_services import ApiServices
from core.clock import utc_now
from core.errors import JobCancelled
from core.ids import CollectionId, DocumentId, JobId, content_hash
from generation.extraction_tables.registration import ExtractionParameters
from inference.kv_store.block_file import block_buffer
from inference.kv_store.block_keys import KEY_BYTES
from inference.kv_store.block_store import BlockStore, usage
from ingest.claims import claim_document
from retrieval.lexical_index import LexicalIndex
from schedules.registration import register_schedule
from storage.collections import CollectionRepository
from storage.database import Database
from storage.documents import DocumentRepository
from storage.events import EventBus, stream_key
from storage.jobs import JobRepository
from storage.models import Document, Job, LedgerRollup, OutboxMessage, Page
from tenancy.rate_limits import RateLimiter
from tests.pipeline_fixtures import House, build_house
from workers.relay import UNHEARD_AFTER_SECONDS, Relay

HANDBOOK = b"# Handbook\n\nPaid leave is twenty-four days a year.\n"
NOVEL = "第一回 桃园结义\n\n关云长造青龙偃月刀，又名冷艳锯，重八十二斤。\n".encode()
LONG_AGO = timedelta(days=2)


@dataclass
class BrokerDouble:
    """Keeps what was sent to it."""

    sent: list[tuple[str, str]] = field(default_factory=list)

    def send_task(self, name: str, *, args: list[str], queue: str, task_id: str) -> None:
        self.sent.append((args[0], queue))


@dataclass
class Post:
    """A house with relays over it."""

    house: House
    services: ApiServices
    broker: BrokerDouble

    def relay(self) -> Relay:
        broker: Any = self.broker
        return Relay(self.services, broker)


@pytest.fixture
def post(database: Database, tmp_path: Path, redis_url: str) -> Iterator[Post]:
    house = build_house(database, tmp_path / "home")
    events = EventBus(redis_url, ttl_seconds=60)
    yield Post(
        house,
        ApiServices(
            house.settings, database, house.blobs, events, RateLimiter("redis://", house.settings.limits)
        ),
        BrokerDouble(),
    )
    events.close()


def count(house: House, model: type) -> int:
    with house.database.read() as session:
        return int(session.execute(select(func.count()).select_from(model)).scalar_one())


def ingest(house: House, files: dict[str, bytes], **where: CollectionId) -> list[DocumentId]:
    job_id = house.upload(files, **where)
    assert house.ingest.run(house.claim(job_id)) == "done"
    return [DocumentId(str(file.document_id)) for file in house.files(job_id)]


def delete(house: House, document_id: DocumentId) -> None:
    with house.database.write() as session:
        documents = DocumentRepository(session, house.principal.tenant_id)
        documents.delete(document_id, at=utc_now() - timedelta(hours=1))


def age_blobs(house: House) -> None:
    moment = (utc_now() - LONG_AGO).timestamp()
    for path in house.settings.blob_dir.rglob("*"):
        if path.is_file():
            os.utime(path, (moment, moment))


def blobs(house: House) -> set[str]:
    return set(house.blobs.list_hashes(house.principal.tenant_id))


def compactions(house: House) -> list[JobId]:
    with house.database.read() as session:
        query = select(Job.id).where(Job.kind == "compact", Job.status == "queued")
        return [JobId(job_id) for job_id in session.scalars(query)]


def test_a_running_relay_sends_sweeps_and_tidies_until_it_is_told_to_stop(post: Post) -> None:
    house, stop = post.house, threading.Event()
    (doomed,) = ingest(house, {"a.md": HANDBOOK})
    delete(house, doomed)
    thread = threading.Thread(target=post.relay().run, args=(stop,))
    thread.start()
    job_id = house.upload({"三国.txt": NOVEL})
    post.services.events.wake_relay()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not (
        (job_id, "ingest") in post.broker.sent and "batch" in {queue for _, queue in post.broker.sent}
    ):
        time.sleep(0.05)
    stop.set()
    post.services.events.wake_relay()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert {queue for _, queue in post.broker.sent} == {"ingest", "batch"}


def test_a_running_relay_begins_what_schedules_are_due(post: Post) -> None:
    house, stop = post.house, threading.Event()
    ingest(house, {"a.md": HANDBOOK})
    parameters = ExtractionParameters(schema={"type": "object", "properties": {"leave": {"type": "integer"}}})
    with house.database.write() as session:
        schedule = register_schedule(
            session,
            house.principal,
            now=utc_now() - timedelta(hours=5),
            name="每小时 hourly",
            action="extraction",
            parameters={"collection_id": house.collection_id, "parameters": parameters.as_json()},
            cron=None,
            time_zone="UTC",
            every_seconds=3600,
            start_at=None,
            end_at=None,
            catch_up="latest",
            overlap="skip",
        )
    thread = threading.Thread(target=post.relay().run, args=(stop,))
    thread.start()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and "batch" not in {queue for _, queue in post.broker.sent}:
        post.services.events.wake_relay()
        time.sleep(0.05)
    stop.set()
    post.services.events.wake_relay()
    thread.join(timeout=10)
    with house.database.read() as session:
        [job] = session.scalars(select(Job).where(Job.schedule_id == schedule.id)).all()
    assert (job.kind, (job.id, "batch") in post.broker.sent) == ("extract", True)


def test_two_relays_send_every_message_once(post: Post) -> None:
    job_ids = [post.house.upload({f"{i}.md": f"# {i}".encode()}) for i in range(20)]

    def send_all() -> None:
        relay = post.relay()
        while relay.send_due():
            pass

    threads = [threading.Thread(target=send_all) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(post.broker.sent) == sorted((job_id, "ingest") for job_id in job_ids)


def test_announcements_are_forgotten_once_their_job_was_claimed(post: Post) -> None:
    heard, unheard = post.house.upload({"a.md": HANDBOOK}), post.house.upload({"三国.txt": NOVEL})
    relay = post.relay()
    relay.send_due()
    post.house.claim(heard)
    relay.sweep()
    with post.house.database.read() as session:
        assert [message.job_id for message in session.scalars(select(OutboxMessage))] == [unheard]


def test_a_job_that_the_broker_lost_is_announced_again(post: Post) -> None:
    job_id = post.house.upload({"a.md": HANDBOOK})
    relay = post.relay()
    relay.send_due()
    with post.house.database.write() as session:
        for message in session.scalars(select(OutboxMessage)):
            message.sent_at = utc_now() - timedelta(seconds=UNHEARD_AFTER_SECONDS + 1)
    relay.sweep()
    relay.send_due()
    assert post.broker.sent == [(job_id, "ingest")] * 2


def test_what_a_dead_worker_left_open_is_closed_when_its_job_was_cancelled(post: Post) -> None:
    house = post.house
    job_id = house.upload({"a.md": HANDBOOK})
    house.claim(job_id)
    with house.database.write() as session:
        claim_document(session, house.principal.tenant_id, house.files(job_id)[0], max_attempts=3)
        JobRepository(session, house.principal.tenant_id).request_cancel(job_id)
        session.get_one(Job, job_id).lease_expires_at = utc_now() - timedelta(seconds=1)
    post.relay().sweep()
    (file,) = house.files(job_id)
    assert (file.status, file.error_code) == ("failed", JobCancelled.code)
    with house.database.read() as session:
        assert session.get_one(Job, job_id).status == "cancelled"
        assert session.get_one(Document, file.document_id).status == "failed"
    ((_, event),) = post.services.events.client.xrange(stream_key(job_id))
    assert (event[b"event"], json.loads(event[b"data"])) == (b"finished", {"status": "cancelled"})


def test_a_deleted_document_leaves_neither_pages_nor_index_entries_nor_file(post: Post) -> None:
    house, relay = post.house, post.relay()
    doomed, kept = ingest(house, {"a.md": HANDBOOK, "三国.txt": NOVEL})
    delete(house, doomed)
    age_blobs(house)
    relay.tidy()
    relay.tidy()
    (job_id,) = compactions(house)
    assert house.compaction.run(house.claim(job_id)) == "done"
    assert blobs(house) == {content_hash(NOVEL)}
    with house.database.read() as session:
        assert set(session.scalars(select(Page.document_id))) == {kept}
        assert session.get_one(Document, doomed).deleted_at is not None
    assert len(LexicalIndex(house.settings.index_dir).chunk_ids(house.collection_id)) == 1
    result = house.retrieval.search(house.principal.tenant_id, house.collection_id, "青龙偃月刀")
    assert (result.num_dead_hits, [p.document_id for p in result.passages]) == (0, [kept])


def test_a_document_deleted_just_now_is_left_to_answers_that_have_found_it(post: Post) -> None:
    (document_id,) = ingest(post.house, {"a.md": HANDBOOK})
    with post.house.database.write() as session:
        DocumentRepository(session, post.house.principal.tenant_id).delete(document_id)
    post.relay().tidy()
    assert compactions(post.house) == []


def test_a_deleted_collection_is_emptied(post: Post) -> None:
    house = post.house
    ingest(house, {"a.md": HANDBOOK, "三国.txt": NOVEL})
    with house.database.write() as session:
        collections = CollectionRepository(session, house.principal.tenant_id)
        collections.delete(house.collection_id, at=utc_now() - timedelta(hours=1))
    post.relay().tidy()
    (job_id,) = compactions(house)
    assert house.compaction.run(house.claim(job_id)) == "done"
    assert count(house, Page) == 0
    assert LexicalIndex(house.settings.index_dir).chunk_ids(house.collection_id) == set()


def test_computed_context_stays_while_its_document_is_static(post: Post) -> None:
    house, tenant_id, folder = post.house, post.house.principal.tenant_id, post.services.settings.kv_store_dir
    deleted, unmarked, static = ingest(house, {"a.md": HANDBOOK, "三国.txt": NOVEL, "c.txt": b"Lake Poyang."})
    store = BlockStore(folder, "n", payload_bytes=8, max_bytes=10**6)
    with house.database.write() as session:
        for document_id in (deleted, unmarked, static):
            DocumentRepository(session, tenant_id).set_static(document_id, True)
    for key, document_id in (("aa", deleted), ("bb", unmarked), ("cc", static)):
        store.write(key * KEY_BYTES, block_buffer(8))
        store.record(tenant_id, document_id, [key * KEY_BYTES])
    post.relay().tidy()
    assert usage(folder).num_blocks == 3
    delete(house, deleted)
    with house.database.write() as session:
        DocumentRepository(session, tenant_id).set_static(unmarked, False)
    post.relay().tidy()
    assert [store.has(key * KEY_BYTES) for key in ("aa", "bb", "cc")] == [False, False, True]
    assert usage(folder).num_documents == 1


def test_a_relay_sums_days_of_the_ledger_that_are_over_and_mends_what_came_late(post: Post) -> None:
    relay, database, tenant_id = post.relay(), post.house.database, post.house.principal.tenant_id
    yesterday = utc_now() - timedelta(days=1, hours=2)

    def record(source: str) -> None:
        line = LedgerLine(
            source=source, attempt=1, stage=Stage.DECODE, model="m", model_revision="r", num_tokens=10
        )
        with database.write() as session:
            Ledger().record(session, tenant_id, [line], at=yesterday)

    for number in (1, 2):
        record(f"answer {number}")
        relay.tidy()
        with database.read() as session:
            sums = session.execute(
                select(LedgerRollup.grain, func.sum(LedgerRollup.num_lines)).group_by(LedgerRollup.grain)
            )
            assert {grain: int(num_lines) for grain, num_lines in sums} == dict.fromkeys(GRAINS, number)


def test_a_file_stays_while_any_document_or_waiting_upload_needs_it(post: Post) -> None:
    house = post.house
    with house.database.write() as session:
        other = CollectionRepository(session, house.principal.tenant_id).create("other")
    (doomed,) = ingest(house, {"a.md": HANDBOOK})
    ingest(house, {"a.md": HANDBOOK}, collection_id=CollectionId(other.id))
    delete(house, doomed)
    house.upload({"三国.txt": NOVEL})
    age_blobs(house)
    post.relay().tidy()
    assert blobs(house) == {content_hash(HANDBOOK), content_hash(NOVEL)}


def test_files_whose_rows_never_came_are_removed_once_they_are_old(post: Post) -> None:
    house = post.house
    for content in (b"old", b"half"):
        writer = house.blobs.writer(house.principal.tenant_id)
        writer.write(content)
        if content == b"old":
            writer.commit()
    age_blobs(house)
    young = house.blobs.writer(house.principal.tenant_id)
    young.write(b"young")
    digest = young.commit()
    post.relay().tidy()
    files = [path.name for path in house.settings.blob_dir.rglob("*") if path.is_file()]
    assert files == [digest]
