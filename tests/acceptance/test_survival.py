"""Workers killed by SIGKILL in the middle: nothing lost, nothing doubled, nothing billed twice."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy import func, select

from client import LongleafClient
from client.events import Delta, Done, Restarted
from client.records import Job
from embedded.stack import EmbeddedStack
from storage.database import Database
from storage.models import Answer, Chunk, Document, Embedding, LedgerEntry

pytestmark = pytest.mark.acceptance

TOPICS = ("bridges", "lighthouses", "markets", "观测站", "图书馆", "运河")


def write_long_documents(folder: Path) -> list[Path]:
    """Three documents of some two hundred chunks each, so of several batches of vectors."""
    paths = []
    for number in range(3):
        lines = [
            f"Entry {i} of volume {number} is about {TOPICS[i % 6]}. It was written by clerk {i * 7 + number}, "
            f"who counted {i * 13} items on shelf {i % 17} and noted that the {TOPICS[(i + 1) % 6]} were closed "
            f"on day {i % 28} of the year {1400 + i}. 第{i}条记录由书吏{number}号抄写，共{i * 3}页，存放在{i % 9}号柜。"
            for i in range(450)
        ]
        path = folder / f"volume-{number}.txt"
        path.write_text("\n\n".join(lines), encoding="utf-8")
        paths.append(path)
    return paths


def wait_until_embedding(client: LongleafClient, job_id: str) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for file in client.get_job(job_id)["files"] or ():
            progress = file["progress"]
            if 0 < progress["chunks_done"] < progress["chunks_total"]:
                return
        time.sleep(0.05)
    raise AssertionError("the job never was in the middle of embedding")


def test_an_ingest_worker_killed_in_the_middle_loses_and_doubles_nothing(
    stack: EmbeddedStack, client: LongleafClient, database: Database, tmp_path: Path
) -> None:
    collection_id = client.create_collection("killed ingest")["id"]
    paths = write_long_documents(tmp_path)
    (upload,) = client.upload(collection_id, paths)
    wait_until_embedding(client, upload.job["id"])
    stack.kill("ingest")
    job: Job = client.wait_for_job(upload.job["id"], timeout=300)

    assert job["status"] == "succeeded"
    assert job["attempt"] == 2
    assert [file["status"] for file in job["files"] or ()] == ["ready"] * len(paths)
    with database.read() as session:
        documents = session.scalars(select(Document).where(Document.collection_id == collection_id)).all()
        chunks = session.scalars(select(Chunk).where(Chunk.collection_id == collection_id)).all()
        lines = session.scalars(select(LedgerEntry).where(LedgerEntry.job_id == job["id"])).all()
        vectors = session.execute(select(func.count()).select_from(Embedding)).scalar_one()
    assert sorted(document.name for document in documents) == sorted(path.name for path in paths)
    assert sum(document.num_chunks for document in documents) == len(chunks)
    require_no_double(lines)
    assert vectors >= len({chunk.text for chunk in chunks})
    # The text of each chunk was paid for once: by its own count and the few tokens around it.
    tokens = sum(line.num_tokens for line in lines)
    least = sum(chunk.num_tokens for chunk in chunks)
    assert least <= tokens <= least + 40 * len(chunks)
    answer = client.ask(collection_id, "Who wrote entry 77 of volume 1?")
    assert "Entry 77 of volume 1 " in str(answer["text"])


def test_a_worker_killed_while_decoding_is_followed_by_one_whole_answer(
    stack: EmbeddedStack, client: LongleafClient, database: Database, samples: list[Path]
) -> None:
    collection_id = client.create_collection("killed decode")["id"]
    for upload in client.upload(collection_id, samples):
        client.wait_for_job(upload.job["id"], timeout=120)
    text, restarts, killed = "", 0, False
    final = None
    question = "How many hours has the working week, and how is overtime compensated?"
    for event in client.ask_stream(collection_id, question, mode="abstractive", max_tokens=120):
        match event:
            case Delta():
                text += event.text
                if not killed:
                    stack.kill("interactive")
                    killed = True
            case Restarted():
                restarts += 1
                text = ""
            case Done():
                final = event.answer
    assert killed
    assert restarts == 1
    assert final is not None
    assert final["status"] == "succeeded"
    assert final["outcome"] in ("answered", "refused")
    with database.read() as session:
        stored = session.scalars(select(Answer).where(Answer.job_id == final["job_id"])).all()
        lines = session.scalars(select(LedgerEntry).where(LedgerEntry.source == final["id"])).all()
    assert len(stored) == 1
    require_no_double(lines)
    billed = [line for line in lines if line.billed]
    assert {line.attempt for line in billed} == {2}
    decoded = [line.num_tokens for line in billed if line.stage == "decode"]
    assert final["usage"] is not None
    assert decoded, "the question must be one that is written about"
    assert decoded == [final["usage"]["completion_tokens"]]
    burned = {line.stage for line in lines if not line.billed}
    assert "decode" in burned, "what the killed attempt is known to have decoded is on the ledger"


def require_no_double(lines: Sequence[LedgerEntry]) -> None:
    seen = Counter((line.source, line.attempt, line.stage) for line in lines)
    assert lines
    assert max(seen.values()) == 1
