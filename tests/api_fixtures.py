"""The API on real storage, with two tenants, and a double of the worker that finishes its jobs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.testclient import TestClient

from api.app import create_app
from bootstrap.api_services import ApiServices, build_api_services
from core.clock import utc_now
from core.errors import LongleafError
from core.ids import AnswerId, CollectionId, JobId, TenantId
from core.settings import LimitSettings, Settings, UploadSettings
from storage.answers import AnswerRepository
from storage.collections import CollectionRepository
from storage.documents import DocumentRepository
from storage.jobs import JobQueue, JobRepository
from storage.migrate import upgrade
from storage.models import Answer, Document, Page
from storage.paging import PageRequest
from storage.uploads import UploadedFileRepository
from tenancy.keys import issue_key
from tenancy.principal import Scope
from tenancy.tenants import DEFAULT_TENANT_NAME, create_tenant
from tests.databases import make_sqlite

OWNER = "test-worker"
LEASE = timedelta(seconds=60)
ALL_SCOPES = tuple(scope.value for scope in Scope)


@dataclass(frozen=True, slots=True)
class House:
    """`north` is the default tenant, whose admin is the operator; `south` is another."""

    services: ApiServices
    app: FastAPI
    client: Any  # Starlette's test client is one of httpx or of httpx2, whichever is installed
    north: TenantId
    south: TenantId
    keys: dict[tuple[TenantId, tuple[str, ...]], str] = field(default_factory=dict)

    def key(self, *scopes: str, tenant: TenantId | None = None) -> dict[str, str]:
        """Headers with a key of the scopes (none named: admin) and the tenant (left out: north)."""
        name = (tenant or self.north, scopes or ("admin",))
        if name not in self.keys:
            self.keys[name] = self.issue(*name[1], tenant=name[0])
        return {"Authorization": f"Bearer {self.keys[name]}"}

    def issue(
        self,
        *scopes: str,
        tenant: TenantId | None = None,
        now: datetime | None = None,
        expires_at: datetime | None = None,
    ) -> str:
        with self.services.database.write() as session:
            return issue_key(
                session,
                tenant or self.north,
                name="测试 test",
                scopes=scopes,
                now=now or utc_now(),
                expires_at=expires_at,
            ).token

    def collection(self, name: str = "年报 reports", tenant: TenantId | None = None) -> CollectionId:
        with self.services.database.write() as session:
            repository = CollectionRepository(session, tenant or self.north)
            found = repository.find_by_name(name)
            return CollectionId((found or repository.create(name)).id)

    def upload(self, *files: tuple[str, bytes], headers: dict[str, str] | None = None) -> dict[str, Any]:
        response = self.client.post(
            f"/v1/collections/{self.collection()}/documents",
            headers=self.key() | (headers or {}),
            files=[("files", file) for file in files],
        )
        assert response.status_code == 202, response.text
        body: dict[str, Any] = response.json()
        return body

    def blobs(self) -> list[str]:
        """Every file of the blob store, half-written ones too."""
        return [path.name for path in self.services.settings.blob_dir.rglob("*") if path.is_file()]

    @property
    def worker(self) -> WorkerDouble:
        return WorkerDouble(self.services)


def upload_limits(**limits: int) -> UploadSettings:
    """The default limits but for these; how full the machine's disk is does not matter."""
    return UploadSettings.model_validate({"min_free_disk_bytes": 0} | limits)


@contextmanager
def open_house(
    home: Path,
    redis_url: str = "",
    *,
    upload: UploadSettings | None = None,
    limits: LimitSettings | None = None,
    database_url: str = "",
) -> Iterator[House]:
    """The API over a migrated database, SQLite by default. Without a `redis_url`, Redis is away."""
    settings = Settings(  # type: ignore[call-arg]
        home=home,
        database_url=database_url,
        redis_url=redis_url or f"unix://{home / 'nobody-listens.sock'}",
        upload=upload or upload_limits(),
        limits=limits or LimitSettings(),  # type: ignore[call-arg]
    )
    if not database_url:
        make_sqlite(home / "longleaf.db")
    services = build_api_services(settings)
    upgrade(services.database)  # of a database that was given
    with services.database.write() as session:
        north = create_tenant(session, name=DEFAULT_TENANT_NAME, now=utc_now())
        south = create_tenant(session, name="南方 south", now=utc_now())
    app = create_app(services)
    with TestClient(app) as client:
        yield House(services, app, client, TenantId(north.id), TenantId(south.id))
    services.close()


class WorkerDouble:
    """Does to SQL and Redis what a worker does, without a model. Takes ids as the API shows them."""

    def __init__(self, services: ApiServices) -> None:
        self._services = services

    def queued(self, tenant_id: TenantId) -> list[JobId]:
        with self._services.database.read() as session:
            page = JobRepository(session, tenant_id).list_page(PageRequest(), status="queued")
        return [JobId(job.id) for job in page.items]

    def claim(self, job_id: str) -> None:
        with self._services.database.write() as session:
            JobQueue(session).claim_job(JobId(job_id), OWNER, lease=LEASE)

    def publish(self, job_id: str, event: str, data: dict[str, Any]) -> None:
        self._services.events.publish(JobId(job_id), event, data)

    def complete(self, tenant_id: TenantId, job_id: str, **values: Any) -> None:
        """Write the answer and end its job; nobody is told."""
        with self._services.database.write() as session:
            answers = AnswerRepository(session, tenant_id)
            answers.complete(AnswerId(answers.get_by_job(JobId(job_id)).id), **(ANSWERED | values))
            JobQueue(session).finish(JobId(job_id), OWNER)

    def fail(self, job_id: str, error: LongleafError) -> None:
        with self._services.database.write() as session:
            JobQueue(session).finish(JobId(job_id), OWNER, error=error)

    def answer(self, tenant_id: TenantId, job_id: str, **values: Any) -> None:
        """The whole of a worker's part."""
        self.claim(job_id)
        self.publish(job_id, "started", {"attempt": 1})
        self.publish(job_id, "passages", {"passages": ANSWERED["passages"]})
        self.publish(job_id, "delta", {"text": "四十二 "})
        self.publish(job_id, "delta", {"text": "forty-two [1]"})
        self.complete(tenant_id, job_id, **values)
        self.publish(job_id, "finished", {"status": "succeeded"})

    @contextmanager
    def running(self, act: Callable[[JobId], None], tenant_id: TenantId) -> Iterator[None]:
        """Call `act` for every job that is queued meanwhile."""
        stop = threading.Event()

        def loop() -> None:
            while not stop.is_set():
                for job_id in self.queued(tenant_id):
                    act(job_id)
                time.sleep(0.005)

        thread = threading.Thread(target=loop, name="worker-double")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


ANSWERED: dict[str, Any] = {
    "mode": "extractive",
    "outcome": "answered",
    "text": "四十二 forty-two [1]",
    "citations": [],
    "passages": [
        {
            "document_id": "doc_1",
            "document_name": "指南.pdf",
            "start": 0,
            "end": 9,
            "first_page": 1,
            "last_page": 1,
            "headings": ["Answers"],
            "score": 0.5,
        }
    ],
    "finish_reason": "stop",
    "model": "test-model",
    "prompt_tokens": 30,
    "cached_tokens": 16,
    "completion_tokens": 4,
    "timings": {"queue_seconds": 0.01, "ttft_seconds": 0.1, "total_seconds": 0.2},
    "cost": Decimal("0.0000001234"),
    "currency": "USD",
    "finished_at": None,
}


def cite(document_id: str) -> dict[str, Any]:
    return {
        "number": 1,
        "document_id": document_id,
        "document_name": "指南.txt",
        "start": 0,
        "end": 3,
        "first_page": 1,
        "last_page": 1,
        "quote": "四十二",
    }


def make_document(house: House, *, text: str = "四十二。Forty-two.", tenant: TenantId | None = None) -> str:
    """A ready document of one page whose blob holds its text; its id."""
    tenant_id = tenant or house.north
    writer = house.services.blobs.writer(tenant_id)
    writer.write(text.encode())
    digest = writer.commit()
    collection_id = house.collection(tenant=tenant_id)
    with house.services.database.write() as session:
        documents = DocumentRepository(session, tenant_id)
        row = documents.create(
            collection_id, name="指南.txt", content_hash=digest, num_bytes=len(text.encode())
        )
        row.status, row.media_type, row.num_pages, row.num_characters = "ready", "text/plain", 1, len(text)
        session.add(
            Page(document_id=row.id, number=1, tenant_id=tenant_id, start=0, end=len(text), text=text)
        )
        return str(row.id)


def make_upload_row(house: House, document_id: str, name: str) -> None:
    """Record that the document came under `name` too."""
    with house.services.database.write() as session:
        document = session.get_one(Document, document_id)
        job = JobRepository(session, house.north).create(
            "ingest", queue="ingest", payload={}, collection_id=None, key_id=None, max_attempts=1
        )
        file = UploadedFileRepository(session, house.north).add(
            JobId(job.id),
            CollectionId(document.collection_id),
            position=0,
            name=name,
            content_hash=document.content_hash,
            num_bytes=document.num_bytes,
        )
        file.status, file.document_id = "duplicate", document_id


def make_answer(house: House, *, tenant: TenantId | None = None) -> Answer:
    """A queued answer."""
    tenant_id = tenant or house.north
    response = house.client.post(
        f"/v1/collections/{house.collection(tenant=tenant_id)}/questions",
        headers=house.key(tenant=tenant_id),
        json={"question": "答案是什么？ What is the answer?", "wait_seconds": 0},
    )
    assert response.status_code == 202, response.text
    with house.services.database.read() as session:
        return AnswerRepository(session, tenant_id).get(AnswerId(response.json()["id"]))


@contextmanager
def serve(services: ApiServices) -> Iterator[tuple[str, int]]:
    """An application of its own behind a real HTTP server; its host and port."""
    server = uvicorn.Server(uvicorn.Config(create_app(services), port=0, log_level="critical"))
    thread = threading.Thread(target=server.run, name="uvicorn")
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield server.servers[0].sockets[0].getsockname()[:2]
    finally:
        server.should_exit = True
        thread.join()
