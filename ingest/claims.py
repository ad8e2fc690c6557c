"""Which document a file becomes, and which job may work on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy.orm import Session

from core.errors import UnreadableDocument
from core.ids import CollectionId, DocumentId, JobId, TenantId, UploadedFileId
from storage.collections import CollectionRepository
from storage.documents import DocumentRepository
from storage.job_states import FINAL_STATUSES
from storage.jobs import JobRepository
from storage.models import Document, UploadedFile
from storage.uploads import UploadedFileRepository

NO_DOCUMENT = DocumentId("")


@dataclass(frozen=True, slots=True)
class Claim:
    """What to do with a file.

    `taken`: make `document_id` ready. `busy`: another live job is at it, look again later.
    `closed`: nothing to do, the file's row says why (a duplicate, or a file that kills workers).
    """

    status: Literal["taken", "busy", "closed"]
    document_id: DocumentId = NO_DOCUMENT


def claim_document(
    session: Session,
    tenant_id: TenantId,
    file: UploadedFile,
    *,
    max_attempts: int,
    tags: Sequence[str] = (),
) -> Claim:
    """Find or make the file's document and take it for the file's job, in the caller's transaction.

    The same bytes are one document per collection: a ready one makes the file a `duplicate`; one
    that failed, or whose job has ended, is tried again. Whatever it was, it gains `tags`.

    Raises:
        NotFound: the collection was deleted.
    """
    files = UploadedFileRepository(session, tenant_id)
    file_id, collection_id = UploadedFileId(file.id), CollectionId(file.collection_id)
    CollectionRepository(session, tenant_id).hold(collection_id)
    document = DocumentRepository(session, tenant_id).take_content(
        collection_id, name=file.name, content_hash=file.content_hash, num_bytes=file.num_bytes
    )
    _add_tags(session, tenant_id, document, tags)
    if document.status == "ready":
        files.set(file_id, status="duplicate", document_id=document.id)
        return Claim("closed")
    if _is_busy(session, tenant_id, document, JobId(file.job_id)):
        return Claim("busy")
    if file.attempts >= max_attempts:
        return _park(files, file, document)
    document.status, document.job_id = "processing", file.job_id
    files.set(file_id, document_id=document.id, status="parsing", attempts=file.attempts + 1)
    return Claim("taken", DocumentId(document.id))


def close_upload(session: Session, tenant_id: TenantId, job_id: JobId, *, code: str, detail: str) -> None:
    """Close what an ended job left open: its files, and its documents, which may be tried again."""
    UploadedFileRepository(session, tenant_id).fail_open(job_id, code=code, detail=detail)
    for document in DocumentRepository(session, tenant_id).list_processing(job_id):
        document.status, document.error_code, document.error_detail = "failed", code, detail


def _add_tags(session: Session, tenant_id: TenantId, document: Document, tags: Sequence[str]) -> None:
    left_out = DocumentRepository(session, tenant_id).add_tags(DocumentId(document.id), tags)
    if left_out:
        warning = f"It has as many tags as it may have; these were left out: {', '.join(left_out)}."
        document.warnings = [*(each for each in document.warnings if each != warning), warning]


def _is_busy(session: Session, tenant_id: TenantId, document: Document, job_id: JobId) -> bool:
    if document.status != "processing" or document.job_id in (None, job_id):
        return False
    other = JobRepository(session, tenant_id).get(JobId(str(document.job_id)))
    return other.status not in FINAL_STATUSES


def _park(files: UploadedFileRepository, file: UploadedFile, document: Document) -> Claim:
    error = UnreadableDocument(
        f"Work on {file.name!r} broke off {file.attempts} times.",
        remedy="The worker's log says how; if it exhausts the memory, split it or give the worker more.",
        file=file.name,
    )
    files.set(UploadedFileId(file.id), document_id=document.id)
    files.fail(UploadedFileId(file.id), error)
    document.status, document.error_code, document.error_detail = "failed", error.code, str(error)
    return Claim("closed")
