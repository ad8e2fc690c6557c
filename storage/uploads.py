"""Files of an upload, one row each, from arrival to what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import func, literal_column, select, union, update
from sqlalchemy.orm import Session

from core.errors import LongleafError
from core.ids import CollectionId, JobId, TenantId, UploadedFileId, new_id
from storage.models import Chunk, Document, UploadedFile

OPEN_STATUSES = ("queued", "parsing", "embedding")


class UploadedFileRepository:
    """Sees only its tenant's files."""

    def __init__(self, session: Session, tenant_id: TenantId) -> None:
        self._session = session
        self._tenant_id = tenant_id

    def add(
        self,
        job_id: JobId,
        collection_id: CollectionId,
        *,
        position: int,
        name: str,
        content_hash: str,
        num_bytes: int,
        error: LongleafError | None = None,
    ) -> UploadedFile:
        """A file that came in, or (with `error`) one that was refused on the way."""
        file = UploadedFile(
            id=new_id("file"),
            tenant_id=self._tenant_id,
            collection_id=collection_id,
            job_id=job_id,
            position=position,
            name=name,
            content_hash=content_hash,
            num_bytes=num_bytes,
            status="failed" if error else "queued",
            error_code=error.code if error else None,
            error_detail=str(error) if error else None,
        )
        self._session.add(file)
        self._session.flush()
        return file

    def list_by_job(self, job_id: JobId) -> Sequence[UploadedFile]:
        """In the order of the request."""
        return self._session.scalars(
            select(UploadedFile)
            .where(UploadedFile.tenant_id == self._tenant_id, UploadedFile.job_id == job_id)
            .order_by(UploadedFile.position)
        ).all()

    def list_open(self, job_id: JobId) -> Sequence[UploadedFile]:
        """Those that still have to be worked on, in order."""
        return self._session.scalars(
            select(UploadedFile)
            .where(
                UploadedFile.tenant_id == self._tenant_id,
                UploadedFile.job_id == job_id,
                UploadedFile.status.in_(OPEN_STATUSES),
            )
            .order_by(UploadedFile.position)
        ).all()

    def count_by_status(self, job_id: JobId) -> dict[str, int]:
        rows = self._session.execute(
            select(UploadedFile.status, func.count().label("num"))
            .where(UploadedFile.tenant_id == self._tenant_id, UploadedFile.job_id == job_id)
            .group_by(UploadedFile.status)
        )
        return {row.status: row.num for row in rows}

    def set(self, file_id: UploadedFileId, **values: object) -> None:
        """Change columns of one file."""
        self._session.execute(
            update(UploadedFile)
            .where(UploadedFile.tenant_id == self._tenant_id, UploadedFile.id == file_id)
            .values(**values)
        )

    def note_duplicate(self, file_id: UploadedFileId, *, model: str, model_revision: str) -> None:
        """If the file is a duplicate: none of its document's passages need be embedded."""
        passages = select(func.coalesce(func.sum(Chunk.num_tokens), 0)).where(
            Chunk.tenant_id == self._tenant_id, Chunk.document_id == UploadedFile.document_id
        )
        self._session.execute(
            update(UploadedFile)
            .where(
                UploadedFile.tenant_id == self._tenant_id,
                UploadedFile.id == file_id,
                UploadedFile.status == "duplicate",
            )
            .values(
                reused_tokens=passages.scalar_subquery(), reused_model=model, reused_revision=model_revision
            )
        )

    def fail(self, file_id: UploadedFileId, error: LongleafError) -> None:
        self.set(file_id, status="failed", error_code=error.code, error_detail=str(error))

    def fail_open(self, job_id: JobId, *, code: str, detail: str) -> None:
        """Close what an ended job left open."""
        self._session.execute(
            update(UploadedFile)
            .where(
                UploadedFile.tenant_id == self._tenant_id,
                UploadedFile.job_id == job_id,
                UploadedFile.status.in_(OPEN_STATUSES),
            )
            .values(status="failed", error_code=code, error_detail=detail)
        )

    def reopen(self, job_id: JobId) -> int:
        """Have the job's failed files worked on again, as if for the first time; how many.

        Those that were refused while they came in have nothing to work on.
        """
        result = self._session.execute(
            update(UploadedFile)
            .where(
                UploadedFile.tenant_id == self._tenant_id,
                UploadedFile.job_id == job_id,
                UploadedFile.status == "failed",
                UploadedFile.content_hash != "",
            )
            .values(status="queued", attempts=0, error_code=None, error_detail=None)
        )
        return int(result.rowcount)  # type: ignore[attr-defined]

    def wanted_hashes(self) -> frozenset[str]:
        """Content hashes of all files that a live document has or that are still to be read."""
        documents = select(Document.content_hash).where(
            Document.tenant_id == self._tenant_id, Document.deleted_at.is_(None)
        )
        files = select(UploadedFile.content_hash).where(
            UploadedFile.tenant_id == self._tenant_id, UploadedFile.status.in_(OPEN_STATUSES)
        )
        return frozenset(self._session.scalars(union(documents, files)))


def reused_tokens(
    session: Session, tenant_id: TenantId, *, start: datetime | None = None, end: datetime | None = None
) -> dict[tuple[str, str], int]:
    """By model and revision, what files uploaded in the interval had in passages that were embedded before."""
    # Spelled out, since SQLite uses a partial index only where the statement itself has its condition.
    query = select(
        UploadedFile.reused_model, UploadedFile.reused_revision, func.sum(UploadedFile.reused_tokens)
    ).where(UploadedFile.tenant_id == tenant_id, UploadedFile.reused_tokens > literal_column("0"))
    if start is not None:
        query = query.where(UploadedFile.created_at >= start)
    if end is not None:
        query = query.where(UploadedFile.created_at < end)
    rows = session.execute(query.group_by(UploadedFile.reused_model, UploadedFile.reused_revision))
    return {(model, revision): int(num_tokens) for model, revision, num_tokens in rows}
