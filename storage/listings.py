"""What lists show beside each row, fetched for a whole page at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from core.ids import AnswerId, CollectionId, DocumentId, JobId, KeyId, TenantId
from core.priority import BACKGROUND
from storage.answers import ANSWER_KIND
from storage.models import Answer, Document, Job, UploadedFile


class Listings:
    """Sees only its tenant's rows. Ask for at most a page (`paging.MAX_LIMIT`) of ids at a time."""

    def __init__(self, session: Session, tenant_id: TenantId) -> None:
        self._session = session
        self._tenant_id = tenant_id

    def count_documents(self, collection_ids: Sequence[CollectionId]) -> dict[CollectionId, int]:
        """Live documents, whatever their status; collections without any are absent."""
        rows = self._session.execute(
            select(Document.collection_id, func.count())
            .where(
                Document.tenant_id == self._tenant_id,
                Document.collection_id.in_(collection_ids),
                Document.deleted_at.is_(None),
            )
            .group_by(Document.collection_id)
        )
        return {CollectionId(collection_id): count for collection_id, count in rows}

    def document_names(self, document_ids: Sequence[DocumentId]) -> dict[DocumentId, list[str]]:
        """Every name each document came under, oldest first."""
        rows = self._session.execute(
            select(UploadedFile.document_id, UploadedFile.name)
            .where(UploadedFile.tenant_id == self._tenant_id, UploadedFile.document_id.in_(document_ids))
            .order_by(UploadedFile.id)
        )
        names: dict[DocumentId, dict[str, None]] = defaultdict(dict)
        for document_id, name in rows:
            names[DocumentId(str(document_id))][name] = None
        return {document_id: list(ordered) for document_id, ordered in names.items()}

    def deleted_documents(self, document_ids: Sequence[DocumentId]) -> frozenset[DocumentId]:
        """Those of `document_ids` that were deleted."""
        rows = self._session.scalars(
            select(Document.id).where(
                Document.tenant_id == self._tenant_id,
                Document.id.in_(document_ids),
                Document.deleted_at.is_not(None),
            )
        )
        return frozenset(DocumentId(document_id) for document_id in rows)

    def jobs(self, job_ids: Sequence[JobId]) -> dict[JobId, Job]:
        rows = self._session.scalars(select(Job).where(Job.tenant_id == self._tenant_id, Job.id.in_(job_ids)))
        return {JobId(job.id): job for job in rows}

    def answer_ids(self, job_ids: Sequence[JobId]) -> dict[JobId, AnswerId]:
        """The answer that each job writes; jobs of other kinds are absent."""
        rows = self._session.execute(
            select(Answer.job_id, Answer.id).where(
                Answer.tenant_id == self._tenant_id, Answer.job_id.in_(job_ids)
            )
        )
        return {JobId(job_id): AnswerId(answer_id) for job_id, answer_id in rows}


def count_open_jobs(session: Session) -> dict[tuple[str, str], int]:
    """How many jobs of all tenants are `queued` or `running`, by (queue, status)."""
    rows = session.execute(
        select(Job.queue, Job.status, func.count())
        .where(Job.status.in_(("queued", "running")))
        .group_by(Job.queue, Job.status)
    )
    return {(queue, status): count for queue, status, count in rows}


def count_awaited_answers(session: Session, tenant_id: TenantId, key_id: KeyId | None = None) -> int:
    """The tenant's questions, or one key's, that people have asked and that are not answered yet."""
    query = select(func.count()).where(
        Job.tenant_id == tenant_id,
        Job.status.in_(("queued", "running")),
        Job.kind == ANSWER_KIND,
        Job.priority != BACKGROUND,
    )
    if key_id is not None:
        query = query.where(Job.key_id == key_id)
    return session.scalar(query) or 0


def count_background_answers(session: Session) -> int:
    """Questions of all tenants that are to be answered when nobody waits, and are not yet."""
    query = select(func.count()).where(
        Job.status.in_(("queued", "running")), Job.kind == ANSWER_KIND, Job.priority == BACKGROUND
    )
    return session.scalar(query) or 0
