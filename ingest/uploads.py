"""Accepting an upload: files stream to the blob store, then one transaction makes rows and job.

Used by the API, so it imports no model.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath

from sqlalchemy.orm import Session

from accounting.holds import Estimate, reserve
from core.errors import EmptyDocument, EmptyInput, InvalidInput, LongleafError, TooLarge
from core.ids import CollectionId, JobId, TenantId
from core.settings import UploadSettings
from storage.blobs import BlobStore, BlobWriter
from storage.collections import CollectionRepository
from storage.jobs import JobRepository
from storage.models import Job
from storage.tags import clean_document_tags
from storage.uploads import UploadedFileRepository
from tenancy.principal import Principal

INGEST_KIND = "ingest"
MAX_NAME_BYTES = 255

UploadEstimate = Callable[[Session, TenantId, int], Estimate]
"""What embedding so many bytes of files takes."""


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A file that has arrived: stored under its hash, or refused with the reason."""

    name: str
    content_hash: str
    num_bytes: int
    error: LongleafError | None = None


@dataclass(frozen=True, slots=True)
class ReceivedUpload:
    """A whole request: its files in order, and the tags that it gives each of them."""

    files: tuple[ReceivedFile, ...]
    tags: tuple[str, ...] = ()


class FileReceiver:
    """Takes one file's bytes as they stream in. A refused file never disturbs the others."""

    def __init__(self, principal: Principal, blobs: BlobStore, name: str, limits: UploadSettings) -> None:
        self._limits = limits
        self._name = clean_file_name(name)
        self._num_bytes = 0
        self._error: LongleafError | None = None
        self._writer: BlobWriter = blobs.writer(principal.tenant_id)

    @property
    def name(self) -> str:
        return self._name

    def write(self, data: bytes) -> None:
        """Store `data`, or only count it once the file was refused.

        Raises:
            TooLarge: the disk is full; the whole request should stop.
        """
        self._num_bytes += len(data)
        if self._error is None and self._num_bytes > self._limits.max_file_bytes:
            self._error = TooLarge(
                f"{self._name!r} is larger than {self._limits.max_file_bytes:,} bytes.",
                remedy="Split it, or have LONGLEAF_UPLOAD__MAX_FILE_BYTES raised.",
                file=self._name,
                max_bytes=self._limits.max_file_bytes,
            )
            self._writer.discard()
        if self._error is None:
            self._writer.write(data)

    def finish(self) -> ReceivedFile:
        """The file as received; an empty one is refused."""
        if self._error is None and self._num_bytes == 0:
            self._error = EmptyDocument(
                f"{self._name!r} is empty (0 bytes).",
                remedy="Check the file and upload it again.",
                file=self._name,
            )
        if self._error is not None:
            self._writer.discard()
            return ReceivedFile(self._name, "", self._num_bytes, self._error)
        return ReceivedFile(self._name, self._writer.commit(), self._num_bytes)

    def discard(self) -> None:
        """The request broke off: leave nothing behind."""
        self._writer.discard()


def clean_file_name(name: str) -> str:
    """A display name without path, control characters or more than 255 bytes; its suffix stays.

    It is shown and searched, never used as a path: files are stored by hash.
    """
    base = PurePosixPath(name.replace("\\", "/")).name
    visible = "".join(
        character for character in base if unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co")
    ).strip()
    if visible.strip(". ") == "":
        return "unnamed"
    suffix = PurePosixPath(visible).suffix
    if len(suffix.encode()) > 16:
        suffix = ""
    stem = visible.removesuffix(suffix)
    room = MAX_NAME_BYTES - len(suffix.encode())
    return stem.encode()[:room].decode(errors="ignore") + suffix


def register_upload(
    session: Session,
    principal: Principal,
    collection_id: CollectionId,
    files: Sequence[ReceivedFile],
    *,
    max_attempts: int,
    tags: Sequence[str] = (),
    estimate: UploadEstimate | None = None,
) -> Job:
    """One job for the request and one row per file, in the caller's transaction.

    The job gives `tags` to each document, also to one that was there already. What `estimate` makes of
    its bytes is held of the budgets it counts against; where it takes more, it stops between files.

    Raises:
        BudgetExceeded: a budget has too little left.
        NotFound: no such collection of the tenant.
        EmptyInput: no file came in.
        InvalidInput: one of `tags` can be no tag, or there are more than a document may have.
    """
    given = {"tags": list(clean_document_tags(tags))} if tags else {}
    CollectionRepository(session, principal.tenant_id).get(collection_id)
    if not files:
        raise EmptyInput(
            "The request holds no file.",
            remedy="Send multipart/form-data with one part named `files` per file.",
        )
    job = JobRepository(session, principal.tenant_id).create(
        INGEST_KIND,
        queue="ingest",
        payload=given,
        collection_id=collection_id,
        key_id=principal.key_id,
        # A file that kills its worker fails after `max_attempts` of its own; the job must outlive
        # every such file so that the rest of the batch gets its turn.
        max_attempts=max_attempts * (len(files) + 1),
    )
    num_bytes = sum(file.num_bytes for file in files if file.error is None)
    reserve(session, job, partial(estimate, session, principal.tenant_id, num_bytes) if estimate else None)
    rows = UploadedFileRepository(session, principal.tenant_id)
    for position, file in enumerate(files):
        rows.add(
            JobId(job.id),
            collection_id,
            position=position,
            name=file.name,
            content_hash=file.content_hash,
            num_bytes=file.num_bytes,
            error=file.error,
        )
    job.progress = {"files_done": sum(file.error is not None for file in files), "files_total": len(files)}
    return job


def require_file_count(count: int, limits: UploadSettings) -> None:
    """Raises `InvalidInput` when a request brings more files than allowed."""
    if count > limits.max_files:
        raise InvalidInput(
            f"The request holds more than {limits.max_files} files.",
            remedy="Send them in several requests.",
            max_files=limits.max_files,
        )
