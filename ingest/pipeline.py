"""From an uploaded file to a document that can be found.

    file ─▶ claim its document ─▶ parse ─▶ chunk ─▶ embed ─▶ index ─▶ ready

Each arrow ends in a committed checkpoint; a worker that dies anywhere leaves rows from which the
next attempt goes on, and vectors that are not computed twice. A document becomes findable in one
transaction that writes its chunks, its index segment and its status, and only while the job's
lease is held.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

import numpy as np
import structlog
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from accounting.holds import require_left
from core.clock import utc_now
from core.errors import BudgetExceeded, InvalidInput, LongleafError, NotFound
from core.ids import CollectionId, DocumentId, SegmentId, TenantId, UploadedFileId, derive_chunk_id
from core.settings import Settings
from inference.protocols import Tokenizer
from ingest.chunking import ChunkDraft, chunk_document
from ingest.claims import Claim, claim_document
from ingest.compaction_requests import request_merge
from ingest.embedding import ChunkEmbedder
from ingest.isolation import IsolatedDocument, parse_isolated
from ingest.parsed import DocumentInfo, Heading, ParsedPage
from retrieval.index_writer import IndexedChunk, IndexWriter
from retrieval.indexed_text import embedding_text
from storage.blobs import BlobStore
from storage.chunks import ChunkRepository
from storage.collections import CollectionRepository
from storage.database import Database
from storage.documents import DocumentRepository
from storage.index_segments import IndexSegmentRepository
from storage.job_run import JobRun, RunOutcome
from storage.jobs import JobQueue
from storage.models import Chunk, Page, UploadedFile
from storage.page_layout import pack_layout
from storage.prewarm_jobs import PromptHeads, request_prewarm
from storage.uploads import UploadedFileRepository

log = structlog.get_logger()

GROUP_CHUNKS = 512
"""Small documents wait for one another until they hold so many chunks, then share one segment."""

GROUP_SECONDS = 2.0
"""… but no longer than this, so that a finished document is not kept from being found."""

PAGES_PER_CHECKPOINT = 25


@dataclass(frozen=True, slots=True)
class ParsedText:
    """A document read to its end."""

    info: DocumentInfo
    text: str
    page_starts: tuple[int, ...]
    headings: tuple[Heading, ...]


@dataclass(frozen=True, slots=True)
class PreparedDocument:
    """Parsed, chunked and embedded; not findable yet."""

    file_id: UploadedFileId
    document_id: DocumentId
    content_hash: str
    parsed: ParsedText
    drafts: Sequence[ChunkDraft]
    texts: Sequence[str]
    vectors: NDArray[np.float32]  # (num_chunks, dimension)


@dataclass(slots=True)
class Group:
    """Documents that will become findable together."""

    documents: list[PreparedDocument] = field(default_factory=list)
    started_at: float = 0.0

    def add(self, document: PreparedDocument) -> None:
        if not self.documents:
            self.started_at = time.monotonic()
        self.documents.append(document)

    def holds(self, content_hash: str) -> bool:
        return any(document.content_hash == content_hash for document in self.documents)

    @property
    def is_due(self) -> bool:
        if not self.documents:
            return False
        num_chunks = sum(len(document.drafts) for document in self.documents)
        return num_chunks >= GROUP_CHUNKS or time.monotonic() - self.started_at >= GROUP_SECONDS


class IngestPipeline:
    """Runs jobs of kind `ingest`, one upload each."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        blobs: BlobStore,
        chunk_embedder: ChunkEmbedder,
        embedder_tokenizer: Tokenizer,
        generator_tokenizer: Tokenizer,
        max_chunk_tokens: int,
        index_writer: IndexWriter,
    ) -> None:
        self._settings = settings
        self._database = database
        self._blobs = blobs
        self._chunk_embedder = chunk_embedder
        self._embedder_tokenizer = embedder_tokenizer
        self._generator_tokenizer = generator_tokenizer
        self._max_chunk_tokens = max_chunk_tokens
        self._index_writer = index_writer

    # ---- the job -------------------------------------------------------------------------

    def run(self, run: JobRun) -> RunOutcome:
        """Work through the upload's files until done, or until the slice ends."""
        started_at = time.monotonic()
        group = Group()
        waiting = False
        for file in self._list_open(run):
            run.checkpoint()
            if self._is_over(run, time.monotonic() - started_at):
                self._publish(run, group)
                return "yielded"
            # The same bytes twice in one upload; or a file that may have killed a worker, whose
            # neighbours must be safe before it is tried again.
            if group.holds(file.content_hash) or file.attempts:
                self._publish(run, group)
            claim = self._claim(run, file, group)
            if claim.status == "busy":  # another job works on the same bytes right now
                waiting = True
                continue
            if claim.status == "taken":
                self._prepare_into(group, run, file, claim.document_id)
            if group.is_due:
                self._publish(run, group)
            self._report(run)
        self._publish(run, group)
        self._report(run)
        if waiting:
            time.sleep(0.2)  # do not spin through the broker while the other job finishes
            return "yielded"
        with self._database.write() as session:
            run.succeed(session)
            if run.job.collection_id is not None:
                self._request_prewarm(session, run.job.tenant_id, run.job.collection_id)
                request_merge(
                    session,
                    run.job,
                    run.job.collection_id,
                    model_revision=self._chunk_embedder.embedder.revision,
                    max_attempts=self._settings.worker.max_attempts,
                )
        return "done"

    def _is_over(self, run: JobRun, seconds: float) -> bool:
        """Whether a slice that took so long by now is to end, since others want the worker."""
        limits = self._settings.worker
        if seconds < limits.fair_slice_seconds:
            return False
        with self._database.read() as session:
            awaited = JobQueue(session).is_awaited("ingest", besides=run.job.tenant_id)
        return awaited or seconds > limits.slice_seconds

    def _request_prewarm(self, session: Session, tenant_id: TenantId, collection_id: CollectionId) -> None:
        """Where there is something to prewarm: what is new may stand in the way of what was cached."""
        settings = self._settings
        since = utc_now() - timedelta(seconds=settings.ask.whole_lookback_seconds)
        weights = PromptHeads(session, tenant_id).weigh_collections(since=since)
        if settings.prewarm.enabled and collection_id in weights:
            request_prewarm(
                session,
                tenant_id,
                collection_id,
                reason="ingest",
                max_attempts=settings.worker.max_attempts,
            )

    @contextmanager
    def _held(self, run: JobRun) -> Iterator[Session]:
        """A transaction that commits only while the job is this worker's."""
        with self._database.write() as session:
            run.confirm(session)
            yield session

    def _list_open(self, run: JobRun) -> Sequence[UploadedFile]:
        with self._database.read() as session:
            return UploadedFileRepository(session, run.job.tenant_id).list_open(run.job.id)

    def _claim(self, run: JobRun, file: UploadedFile, group: Group) -> Claim:
        try:
            with self._database.read() as session:
                require_left(session, run.job)
        except BudgetExceeded:
            self._publish(run, group)  # what has been computed is paid for
            raise
        with self._held(run) as session:
            claim = claim_document(
                session,
                run.job.tenant_id,
                file,
                max_attempts=self._settings.worker.max_attempts,
                tags=run.job.payload.get("tags", ()),
            )
            if claim.status == "closed":
                embedder = self._chunk_embedder.embedder
                UploadedFileRepository(session, run.job.tenant_id).note_duplicate(
                    UploadedFileId(file.id), model=embedder.name, model_revision=embedder.revision
                )
            return claim

    def _report(self, run: JobRun) -> None:
        with self._database.write() as session:
            counts = UploadedFileRepository(session, run.job.tenant_id).count_by_status(run.job.id)
            done = sum(counts.get(status, 0) for status in ("ready", "duplicate", "failed"))
            run.set_progress(
                session, {"files_done": done, "files_total": sum(counts.values()), "by_status": counts}
            )

    # ---- one file ------------------------------------------------------------------------

    def _prepare_into(self, group: Group, run: JobRun, file: UploadedFile, document_id: DocumentId) -> None:
        """Add the prepared document to the group; a file that cannot be read fails alone."""
        started = time.monotonic()
        try:
            document = self._prepare(run, file, document_id)
        except (InvalidInput, NotFound) as error:
            log.info("document.unreadable", document_id=document_id, code=error.code)
            self._fail(run, file, document_id, error)
            return
        log.info(
            "document.prepared",
            document_id=document_id,
            num_pages=len(document.parsed.page_starts),
            num_chunks=len(document.drafts),
            seconds=round(time.monotonic() - started, 3),
        )
        group.add(document)

    def _prepare(self, run: JobRun, file: UploadedFile, document_id: DocumentId) -> PreparedDocument:
        parsed = self._parse(run, file, document_id)
        drafts = chunk_document(
            parsed.text,
            parsed.headings,
            parsed.page_starts,
            embedder_tokenizer=self._embedder_tokenizer,
            generator_tokenizer=self._generator_tokenizer,
            max_tokens=self._max_chunk_tokens,
            overlap_tokens=self._settings.chunk.overlap_tokens,
        )
        self._set_file(run, file, status="embedding", chunks_total=len(drafts))
        texts = [embedding_text(parsed.info.title, draft.headings, draft.text) for draft in drafts]
        vectors = self._chunk_embedder.embed(
            run,
            document_id,
            texts,
            on_progress=lambda done: self._set_file(run, file, chunks_done=done),
            on_reused=partial(self._note_reused, run, file),
        )
        return PreparedDocument(
            UploadedFileId(file.id), document_id, file.content_hash, parsed, drafts, texts, vectors
        )

    def _note_reused(self, run: JobRun, file: UploadedFile, num_tokens: int) -> None:
        if file.attempts:
            return  # what an attempt before had embedded was paid for, and cannot be told from the rest
        embedder = self._chunk_embedder.embedder
        self._set_file(
            run,
            file,
            reused_tokens=num_tokens,
            reused_model=embedder.name,
            reused_revision=embedder.revision,
        )

    def _parse(self, run: JobRun, file: UploadedFile, document_id: DocumentId) -> ParsedText:
        """Read the file in a process of its own; its pages are stored as they come."""
        limits = self._settings.chunk
        with (
            self._blobs.local_path(run.job.tenant_id, file.content_hash) as path,
            parse_isolated(
                path,
                file.name,
                timeout_seconds=limits.parse_timeout_seconds,
                memory_bytes=limits.parse_memory_bytes,
            ) as parsed,
        ):
            self._set_file(run, file, status="parsing", pages_total=parsed.info.num_pages)
            return self._store_pages(run, file, document_id, parsed)

    def _store_pages(
        self,
        run: JobRun,
        file: UploadedFile,
        document_id: DocumentId,
        parsed: IsolatedDocument,
    ) -> ParsedText:
        texts: list[str] = []
        starts: list[int] = []
        headings: list[Heading] = []
        batch: list[Page] = []
        length = 0
        with self._held(run) as session:
            DocumentRepository(session, run.job.tenant_id).delete_pages([document_id])
        for page in parsed:
            starts.append(length)
            texts.append(page.text)
            headings += [Heading(length + h.start, h.level, h.text) for h in page.headings]
            batch.append(_page_row(run, document_id, page, length))
            length += len(page.text)
            if len(batch) == PAGES_PER_CHECKPOINT:
                run.checkpoint()
                self._add_pages(run, file, batch, len(starts))
                batch = []
        self._add_pages(run, file, batch, len(starts))
        return ParsedText(
            replace(parsed.info, warnings=parsed.warnings), "".join(texts), tuple(starts), tuple(headings)
        )

    def _add_pages(self, run: JobRun, file: UploadedFile, batch: Sequence[Page], done: int) -> None:
        with self._held(run) as session:
            session.add_all(batch)
            UploadedFileRepository(session, run.job.tenant_id).set(UploadedFileId(file.id), pages_done=done)

    def _set_file(self, run: JobRun, file: UploadedFile, **values: object) -> None:
        with self._held(run) as session:
            UploadedFileRepository(session, run.job.tenant_id).set(UploadedFileId(file.id), **values)

    def _fail(self, run: JobRun, file: UploadedFile, document_id: DocumentId, error: LongleafError) -> None:
        with self._held(run) as session:
            UploadedFileRepository(session, run.job.tenant_id).fail(UploadedFileId(file.id), error)
            document = DocumentRepository(session, run.job.tenant_id).lock(document_id)
            document.status, document.error_code, document.error_detail = "failed", error.code, str(error)

    # ---- becoming findable ---------------------------------------------------------------

    def _publish(self, run: JobRun, group: Group) -> None:
        """Write the group's index entries, then make its documents findable in one transaction."""
        documents, group.documents = group.documents, []
        if not documents or run.job.collection_id is None:
            return
        run.checkpoint()
        collection_id = run.job.collection_id
        chunks = [chunk for document in documents for chunk in _indexed_chunks(document)]
        segment = None
        if chunks:
            vectors = np.concatenate([document.vectors for document in documents])
            segment = self._index_writer.index(collection_id, chunks, vectors)
        with self._held(run) as session:
            CollectionRepository(session, run.job.tenant_id).hold(collection_id)
            if segment is not None:
                IndexSegmentRepository(session, run.job.tenant_id).add(
                    SegmentId(segment.id),
                    collection_id,
                    model_revision=self._chunk_embedder.embedder.revision,
                    kind=segment.kind,
                    num_vectors=segment.num_vectors,
                )
            for document in documents:
                _make_ready(session, run, document, collection_id)
        log.info("group.published", job_id=run.job.id, num_documents=len(documents))


def _make_ready(
    session: Session, run: JobRun, prepared: PreparedDocument, collection_id: CollectionId
) -> None:
    """Chunks, status and file row of one document; a document deleted meanwhile stays deleted."""
    tenant_id, document_id = run.job.tenant_id, prepared.document_id
    files = UploadedFileRepository(session, tenant_id)
    document = DocumentRepository(session, tenant_id).lock(document_id)
    if document.deleted_at is not None:
        files.set(
            prepared.file_id,
            status="failed",
            error_code="document_deleted",
            error_detail=f"Document {document_id} was deleted while it was being indexed.",
        )
        return
    ChunkRepository(session, tenant_id).replace(
        document_id,
        [
            Chunk(
                id=derive_chunk_id(document_id, draft.position, draft.text),
                tenant_id=tenant_id,
                collection_id=collection_id,
                document_id=document_id,
                position=draft.position,
                start=draft.start,
                end=draft.end,
                first_page=draft.first_page,
                last_page=draft.last_page,
                headings=list(draft.headings),
                text=draft.text,
                num_tokens=draft.num_tokens,
                num_generator_tokens=draft.num_generator_tokens,
            )
            for draft in prepared.drafts
        ],
    )
    info = prepared.parsed.info
    document.status, document.error_code, document.error_detail = "ready", None, None
    document.media_type, document.title, document.warnings = info.media_type, info.title, list(info.warnings)
    document.num_pages, document.num_chunks = len(prepared.parsed.page_starts), len(prepared.drafts)
    document.num_characters, document.indexed_at = len(prepared.parsed.text), utc_now()
    files.set(prepared.file_id, status="ready", chunks_done=len(prepared.drafts))


def _indexed_chunks(document: PreparedDocument) -> list[IndexedChunk]:
    return [
        IndexedChunk(
            derive_chunk_id(document.document_id, draft.position, draft.text), document.document_id, text
        )
        for draft, text in zip(document.drafts, document.texts, strict=True)
    ]


def _page_row(run: JobRun, document_id: DocumentId, page: ParsedPage, start: int) -> Page:
    return Page(
        document_id=document_id,
        number=page.number,
        tenant_id=run.job.tenant_id,
        start=start,
        end=start + len(page.text),
        text=page.text,
        width=page.width,
        height=page.height,
        layout=pack_layout(page.lines),
    )
