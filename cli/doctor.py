"""Checks of everything on this machine, and repairs of what can be repaired."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Literal, TypeVar

import redis

from accounting.budgets import find_budget_differences
from accounting.ledger import Ledger
from accounting.rollups import find_differences, mend_rollups
from bootstrap.probe_accounts import ProbeAccounts
from cli.local_database import all_tenants
from core.clock import utc_now
from core.errors import LongleafError
from core.ids import CollectionId, TenantId
from core.settings import Settings
from embedded.components import PROBE_SECONDS, http_answers
from embedded.models import wanted_models
from inference.kv_store.block_store import usage
from inference.prepare import is_prepared, prepare_model
from inference.registry import ModelSpec
from storage.blobs import LocalBlobStore
from storage.collections import CollectionRepository
from storage.database import Database
from storage.documents import DocumentRepository
from storage.migrate import current_revision, pending, upgrade
from storage.models import Collection, Document
from storage.paging import MAX_LIMIT, Page, PageRequest

Row = TypeVar("Row")

Verdict = Literal["ok", "away", "repaired", "fault"]
"""`away`: it does not run just now, which is no fault of what is stored."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at."""

    subject: str
    verdict: Verdict
    detail: str
    remedy: str = ""
    figures: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def examine(settings: Settings, *, repair: bool = False) -> Iterator[Finding]:
    """Findings as they are made. With `repair`, migrates, prepares models and rebuilds indexes.

    A repaired index is looked at again, so `repaired` means that no difference is left.
    """
    yield _disk(settings)
    yield _kv_store(settings)
    yield from _models(settings, repair=repair)
    yield _redis(settings)
    database = Database(settings.resolved_database_url)
    with ExitStack() as stack:
        stack.callback(database.dispose)
        yield from _engines(settings, database)
        yield _service("api", f"{settings.api_url}/readyz", "`longleaf up` starts it")
        finding = _database(database, repair=repair)
        yield finding
        if finding.verdict == "fault":
            return
        collections = list(_collections(database))
        yield _prewarm(database)
        yield _budgets(database, repair=repair)
        yield _rollups(database, repair=repair)
        yield from _blobs(settings, database, collections)
        yield from _indexes(settings, database, collections, repair=repair)


def _budgets(database: Database, *, repair: bool) -> Finding:
    """Whether what budgets count is what the ledger's lines sum to."""
    with database.write() as session:
        differences = list(find_budget_differences(session, now=utc_now(), mend=repair))
    if not differences:
        return Finding("budgets", "ok", "what they count is the ledger's sum")
    detail = "; ".join(
        f"{each.budget_id} counts {each.counted}, not {each.on_ledger}" for each in differences
    )
    if repair:
        return Finding("budgets", "repaired", detail)
    return Finding("budgets", "fault", detail, "Run `longleaf doctor --repair`.")


def _disk(settings: Settings) -> Finding:
    root = settings.root
    if not root.is_dir():
        return Finding("data folder", "fault", f"{root} does not exist.", "`longleaf up` makes it.")
    free, reserve = shutil.disk_usage(root).free, settings.upload.min_free_disk_bytes
    detail = f"{root}, {free // 2**20:,} MiB free"
    if free < reserve:
        remedy = f"Uploads are refused below {reserve // 2**20:,} MiB: free space."
        return Finding("data folder", "fault", detail, remedy, {"free_bytes": free})
    return Finding("data folder", "ok", detail, figures={"free_bytes": free})


def _kv_store(settings: Settings) -> Finding:
    found, limit = usage(settings.kv_store_dir), settings.engine.kv_store_bytes
    figures = {"num_bytes": found.num_bytes, "max_bytes": limit, "num_documents": found.num_documents}
    detail = (
        f"computed context of {found.num_documents} static documents, "
        f"{found.num_bytes // 2**20:,} of {limit // 2**20:,} MiB"
    )
    return Finding("kv store", "ok", detail, figures=figures)


def _models(settings: Settings, *, repair: bool) -> Iterator[Finding]:
    for spec in wanted_models(settings):
        subject = f"model {spec.name}"
        if is_prepared(spec, settings.model_dir, backend=settings.encoder_backend):
            yield Finding(subject, "ok", f"prepared, from {spec.source}")
        elif repair:
            yield _prepare(subject, spec, settings)
        else:
            yield Finding(subject, "fault", "not prepared", "Run `longleaf models prepare`.")


def _redis(settings: Settings) -> Finding:
    client: redis.Redis = redis.Redis.from_url(settings.resolved_redis_url, socket_timeout=PROBE_SECONDS)
    try:
        client.ping()
    except redis.RedisError as error:
        return Finding("redis", "away", f"does not answer: {error}", "`longleaf up` starts it.")
    finally:
        client.close()
    return Finding("redis", "ok", "answers")


def _service(subject: str, url: str, remedy: str) -> Finding:
    if http_answers(url):
        return Finding(subject, "ok", f"{url} answers")
    return Finding(subject, "away", f"{url} does not answer.", f"{remedy}.")


def _engines(settings: Settings, database: Database) -> Iterator[Finding]:
    """Each engine, and with several whether they serve the same."""
    urls = settings.engine_urls
    if len(urls) == 1:
        yield _service("engine", f"{urls[0]}/health", "`longleaf up` starts it")
        return
    findings = [_service(f"engine-{n}", f"{url}/health", "Start it") for n, url in enumerate(urls, start=1)]
    yield from findings
    if any(finding.verdict == "ok" for finding in findings):
        yield _agreement(settings, database)


def _agreement(settings: Settings, database: Database) -> Finding:
    from bootstrap.engine_services import build_engine

    try:
        info = build_engine(settings, on_probed=ProbeAccounts(database, Ledger()).record).info()
    except LongleafError as error:
        return Finding("engines", "fault", error.detail, error.remedy)
    return Finding("engines", "ok", f"serve {info.model} with a window of {info.max_model_len:,} tokens")


def _database(database: Database, *, repair: bool) -> Finding:
    try:
        database.ping()
        behind = pending(database)
        if behind and repair:
            upgrade(database)
            return Finding("database", "repaired", f"migrated to {current_revision(database)}")
    except LongleafError as error:
        return Finding("database", "fault", error.detail, error.remedy)
    if behind:
        return Finding(
            "database", "fault", f"{len(behind)} migrations are pending.", "Run `longleaf doctor --repair`."
        )
    return Finding("database", "ok", f"at revision {current_revision(database)}")


def _prewarm(database: Database) -> Finding:
    """What prewarming was good for in the last day."""
    from generation.prewarm.report import measure_prewarm

    with database.read() as session:
        report = measure_prewarm(session, since=utc_now() - timedelta(days=1))
    figures = asdict(report) | {"hit_rate": report.hit_rate, "wasted_tokens": report.wasted_tokens}
    if not report.num_heads:
        return Finding("prewarm", "ok", "nothing was computed beforehand in the last day", figures=figures)
    detail = (
        f"{report.computed_tokens:,} tokens of {report.num_heads} beginnings of prompts in the last day; questions "
        f"found {report.hit_rate:.0%} of them, {report.wasted_tokens:,} tokens were of no use yet"
    )
    return Finding("prewarm", "ok", detail, figures=figures)


def _rollups(database: Database, *, repair: bool) -> Finding:
    """Sums of closed days against the ledger's lines."""
    subject, num_days, work = "ledger sums", 0, mend_rollups if repair else find_differences
    with database.write() if repair else database.read() as session:
        for tenant in list(all_tenants(session)):
            num_days += len(work(session, TenantId(tenant.id)))
    figures = {"num_days": num_days}
    if not num_days:
        return Finding(subject, "ok", "rollups are the sums of the lines, to the last digit", figures=figures)
    detail = f"of {num_days} days the rollups are not the sums of the lines"
    if repair:
        return Finding(subject, "repaired", f"{detail}; they were summed anew", figures=figures)
    return Finding(subject, "fault", detail, "Run `longleaf doctor --repair`.", figures)


def _collections(database: Database) -> Iterator[tuple[TenantId, Collection]]:
    with database.read() as session:
        for tenant in list(all_tenants(session)):
            tenant_id = TenantId(tenant.id)
            repository = CollectionRepository(session, tenant_id)
            for collection in _all(repository.list_page):
                yield tenant_id, collection


def _all(list_page: Callable[[PageRequest], Page[Row]]) -> Iterator[Row]:
    cursor: str | None = None
    while True:
        page = list_page(PageRequest(limit=MAX_LIMIT, cursor=cursor))
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return


def _blobs(
    settings: Settings, database: Database, collections: list[tuple[TenantId, Collection]]
) -> Iterator[Finding]:
    """Uploaded files that rows speak of and the disk does not have."""
    blobs = LocalBlobStore(settings.blob_dir)
    for tenant_id, collection in collections:
        documents = _documents(database, tenant_id, CollectionId(collection.id))
        missing = [each for each in documents if not blobs.exists(tenant_id, each.content_hash)]
        subject = f"files of {collection.name}"
        figures = {"collection_id": collection.id, "num_missing": len(missing)}
        if missing:
            names = ", ".join(repr(each.name) for each in missing[:5])
            detail = f"{len(missing)} of {len(documents)} stored files are missing: {names}"
            yield Finding(subject, "fault", detail, "Restore them, or upload these documents again.", figures)
        else:
            yield Finding(subject, "ok", f"{len(documents)} documents, all stored", figures=figures)


def _documents(database: Database, tenant_id: TenantId, collection_id: CollectionId) -> list[Document]:
    with database.read() as session:
        repository = DocumentRepository(session, tenant_id)
        return list(_all(lambda page: repository.list_page(collection_id, page)))


def _indexes(
    settings: Settings,
    database: Database,
    collections: list[tuple[TenantId, Collection]],
    *,
    repair: bool,
) -> Iterator[Finding]:
    """FAISS and BM25 against SQL."""
    if not collections:
        return
    from bootstrap.retrieval_services import build_maintenance  # loads torch

    try:
        maintenance = build_maintenance(settings, database)
    except LongleafError as error:
        yield Finding("indexes", "fault", error.detail, error.remedy)
        return
    for tenant_id, collection in collections:
        collection_id = CollectionId(collection.id)
        subject = f"index of {collection.name}"
        diagnosis = maintenance.diagnose(tenant_id, collection_id)
        verdict: Verdict = "ok" if diagnosis.is_healthy else "fault"
        if repair and not diagnosis.is_healthy:
            maintenance.rebuild(tenant_id, collection_id)
            diagnosis = maintenance.diagnose(tenant_id, collection_id)
            verdict = "repaired" if diagnosis.is_healthy else "fault"
        remedy = "Run `longleaf doctor --repair`." if verdict == "fault" else ""
        figures = {
            "collection_id": collection.id,
            "num_chunks": diagnosis.num_chunks,
            "num_missing_dense": len(diagnosis.missing_dense),
            "num_missing_lexical": len(diagnosis.missing_lexical),
            "num_dead_dense": diagnosis.num_dead_dense,
            "num_dead_lexical": diagnosis.num_dead_lexical,
            "corrupt": list(diagnosis.corrupt),
        }
        yield Finding(subject, verdict, _words(figures), remedy, figures)


def _words(figures: dict[str, Any]) -> str:
    parts = [f"{figures['num_chunks']:,} chunks"]
    named = (
        ("num_missing_dense", "missing in FAISS"),
        ("num_missing_lexical", "missing in BM25"),
        ("num_dead_dense", "tombstones in FAISS"),
        ("num_dead_lexical", "tombstones in BM25"),
    )
    parts += [f"{figures[name]:,} {words}" for name, words in named if figures[name]]
    return ", ".join([*parts, *figures["corrupt"]])


def _prepare(subject: str, spec: ModelSpec, settings: Settings) -> Finding:
    try:
        folder = prepare_model(spec, settings.model_dir, backend=settings.encoder_backend)
    except LongleafError as error:
        return Finding(subject, "fault", error.detail, error.remedy)
    return Finding(subject, "repaired", f"prepared in {folder}")
