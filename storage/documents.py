"""Documents and their pages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Select, delete, exists, func, select
from sqlalchemy.orm import Session

from core.clock import utc_now
from core.errors import NotFound
from core.ids import CollectionId, DocumentId, JobId, TenantId, new_id
from storage.insertion import insert_if_absent
from storage.models import Chunk, Document, Page, UploadedFile
from storage.paging import Page as PageOf
from storage.paging import PageRequest, paginate

_IN_LIMIT = 500  # bound variables per statement; SQLite's default limit is higher, old builds' 999


class DocumentRepository:
    """Sees only its tenant's documents."""

    def __init__(self, session: Session, tenant_id: TenantId) -> None:
        self._session = session
        self._tenant_id = tenant_id

    def take_content(
        self, collection_id: CollectionId, *, name: str, content_hash: str, num_bytes: int
    ) -> Document:
        """The live document of these bytes, whatever its status, made if there is none.

        It is locked until the transaction ends: of two workers that ask at once, the second sees
        what the first made of it.
        """
        query = (
            select(Document)
            .where(
                Document.tenant_id == self._tenant_id,
                Document.collection_id == collection_id,
                Document.content_hash == content_hash,
                Document.deleted_at.is_(None),
            )
            .with_for_update()
            .execution_options(populate_existing=True)
        )
        while (found := self._session.scalar(query)) is None:
            values = {
                "id": new_id("doc"),
                "tenant_id": self._tenant_id,
                "collection_id": collection_id,
                "name": name,
                "content_hash": content_hash,
                "num_bytes": num_bytes,
            }
            insert_if_absent(self._session, Document, values)
        return found

    def create(
        self, collection_id: CollectionId, *, name: str, content_hash: str, num_bytes: int
    ) -> Document:
        document = Document(
            id=new_id("doc"),
            tenant_id=self._tenant_id,
            collection_id=collection_id,
            name=name,
            content_hash=content_hash,
            num_bytes=num_bytes,
        )
        self._session.add(document)
        self._session.flush()
        return document

    def get(self, document_id: DocumentId) -> Document:
        """Raises `NotFound` for an unknown, deleted or foreign id."""
        query = select(Document).where(
            Document.id == document_id,
            Document.tenant_id == self._tenant_id,
            Document.deleted_at.is_(None),
        )
        return self._require(query, document_id)

    def _require(self, query: Select[Document], document_id: DocumentId) -> Document:
        found = self._session.scalar(query)
        if found is None:
            raise NotFound(
                f"There is no document {document_id}.",
                remedy="List a collection's with GET /v1/collections/{id}/documents.",
                document_id=document_id,
            )
        return found

    def lock(self, document_id: DocumentId) -> Document:
        """The document, deleted or not; nobody else can change it before this transaction ends.

        Raises `NotFound` for an unknown or foreign id.
        """
        query = select(Document).where(Document.id == document_id, Document.tenant_id == self._tenant_id)
        return self._require(query.with_for_update(), document_id)

    def list_processing(self, job_id: JobId) -> Sequence[Document]:
        """Documents that this job took and has not made ready."""
        return self._session.scalars(
            select(Document).where(
                Document.tenant_id == self._tenant_id,
                Document.job_id == job_id,
                Document.status == "processing",
            )
        ).all()

    def list_page(
        self,
        collection_id: CollectionId,
        page: PageRequest,
        *,
        status: str | None = None,
        name: str | None = None,
    ) -> PageOf[Document]:
        """Oldest first; `name` also finds documents uploaded again under that name."""
        query = select(Document).where(
            Document.tenant_id == self._tenant_id,
            Document.collection_id == collection_id,
            Document.deleted_at.is_(None),
        )
        if status is not None:
            query = query.where(Document.status == status)
        if name is not None:
            alias = select(UploadedFile.document_id).where(
                UploadedFile.tenant_id == self._tenant_id,
                UploadedFile.collection_id == collection_id,
                UploadedFile.name == name,
            )
            query = query.where((Document.name == name) | Document.id.in_(alias))
        return paginate(self._session, query, Document, page)

    def delete(self, document_id: DocumentId, *, at: datetime | None = None) -> None:
        """Unfindable at once: its chunks go, and a hit counts only if its chunk is here.

        The row stays, so that old answers can say that what they cited was withdrawn. Its pages and
        what the indexes hold of it go later (`list_purgeable`), its file with the blobs' garbage.
        """
        document = self.get(document_id)
        document.deleted_at = at or utc_now()
        self._session.execute(
            delete(Chunk).where(Chunk.tenant_id == self._tenant_id, Chunk.document_id == document_id)
        )

    def list_purgeable(self, collection_id: CollectionId, *, deleted_before: datetime) -> list[DocumentId]:
        """Documents deleted before then whose pages are still stored."""
        query = _purgeable(deleted_before).where(
            Document.tenant_id == self._tenant_id, Document.collection_id == collection_id
        )
        return [DocumentId(row.id) for row in self._session.execute(query)]

    def delete_pages(self, document_ids: Sequence[DocumentId]) -> None:
        """Of documents that were deleted, or are about to be read anew."""
        for i in range(0, len(document_ids), _IN_LIMIT):
            self._session.execute(
                delete(Page)
                .where(
                    Page.tenant_id == self._tenant_id, Page.document_id.in_(document_ids[i : i + _IN_LIMIT])
                )
                .execution_options(synchronize_session=False)
            )

    def list_pages(
        self, document_id: DocumentId, *, first: int = 1, last: int | None = None
    ) -> Sequence[Page]:
        """Pages `first` to `last`, in order."""
        query = select(Page).where(
            Page.tenant_id == self._tenant_id,
            Page.document_id == document_id,
            Page.number >= first,
        )
        if last is not None:
            query = query.where(Page.number <= last)
        return self._session.scalars(query.order_by(Page.number)).all()

    def find_pages(self, document_id: DocumentId, start: int, end: int) -> tuple[int, int]:
        """Numbers of the first and last page that characters `start` to `end` touch."""
        first, last = self._session.execute(
            select(func.min(Page.number), func.max(Page.number)).where(
                Page.tenant_id == self._tenant_id,
                Page.document_id == document_id,
                Page.start < end,
                Page.end > start,
            )
        ).one()
        return int(first or 0), int(last or 0)

    def read_text(self, document_id: DocumentId, start: int, end: int) -> str:
        """Characters `start` to `end` of the document's text."""
        pages = self._session.execute(
            select(Page.start, Page.text)
            .where(
                Page.tenant_id == self._tenant_id,
                Page.document_id == document_id,
                Page.start < end,
                Page.end > start,
            )
            .order_by(Page.number)
        ).all()
        if not pages:
            return ""
        offset = pages[0].start
        joined = "".join(page.text for page in pages)
        return joined[start - offset : end - offset]


def list_purgeable_collections(
    session: Session, *, deleted_before: datetime
) -> list[tuple[TenantId, CollectionId]]:
    """Every tenant's collections with documents to purge."""
    found = _purgeable(deleted_before).subquery()
    rows = session.execute(select(found.c.tenant_id, found.c.collection_id).distinct())
    return [(TenantId(tenant_id), CollectionId(collection_id)) for tenant_id, collection_id in rows]


def _purgeable(deleted_before: datetime) -> Select[str, str, str]:
    return select(Document.id, Document.tenant_id, Document.collection_id).where(
        Document.deleted_at < deleted_before,
        exists().where(Page.document_id == Document.id),
    )
