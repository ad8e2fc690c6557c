"""Documents and their pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Select, delete, exists, func, insert, select
from sqlalchemy.orm import Session

from core.clock import utc_now
from core.errors import NotFound
from core.ids import CollectionId, DocumentId, JobId, TenantId, new_id
from storage.answer_traces import AnswerTraceRepository
from storage.conversations import ConversationRepository
from storage.insertion import insert_if_absent
from storage.models import Chunk, Document, DocumentTag, Page, UploadedFile
from storage.paging import Page as PageOf
from storage.paging import PageRequest, paginate
from storage.tags import MAX_TAGS, clean_document_tags, clean_tags

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
        return self._require(self._live(document_id), document_id)

    def _live(self, document_id: DocumentId) -> Select[Document]:
        return select(Document).where(
            Document.id == document_id,
            Document.tenant_id == self._tenant_id,
            Document.deleted_at.is_(None),
        )

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
        tags: Sequence[str] = (),
    ) -> PageOf[Document]:
        """Oldest first; `name` also finds documents uploaded again under that name.

        With `tags`, those that have any of them. Raises `InvalidInput` for what can be no tag.
        """
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
        if tags:
            query = query.where(self._has_any(clean_tags(tags)))
        return paginate(self._session, query, Document, page)

    def find_filtered(
        self,
        collection_id: CollectionId,
        *,
        document_ids: Sequence[DocumentId] = (),
        tags: Sequence[str] = (),
        uploaded_from: datetime | None = None,
        uploaded_before: datetime | None = None,
        ready: bool = True,
    ) -> list[DocumentId]:
        """Ready documents that meet every condition given, oldest first; an empty one lets all pass.

        `document_ids` and `tags` are met by any one of theirs; the moments bound `created_at`, the
        second excluded. Nothing may be left, which is no error. With `ready` False those that are not.

        Raises:
            NotFound: one of `document_ids` is no live document of the collection; it is named, for
                who filters by a wrong id wants to know.
            InvalidInput: one of `tags` can be no tag.
        """
        query = select(Document.created_at, Document.id).where(
            Document.tenant_id == self._tenant_id,
            Document.collection_id == collection_id,
            Document.deleted_at.is_(None),
            Document.status == "ready" if ready else Document.status != "ready",
        )
        if tags:
            query = query.where(self._has_any(clean_tags(tags)))
        if uploaded_from is not None:
            query = query.where(Document.created_at >= uploaded_from)
        if uploaded_before is not None:
            query = query.where(Document.created_at < uploaded_before)
        queries = [query]
        if document_ids:
            wanted = list(dict.fromkeys(document_ids))
            self._require_all(collection_id, wanted)
            queries = [query.where(Document.id.in_(batch)) for batch in _batches(wanted)]
        found = {
            (moment, DocumentId(name)) for each in queries for moment, name in self._session.execute(each)
        }
        return [document_id for _, document_id in sorted(found)]

    def _require_all(self, collection_id: CollectionId, document_ids: Sequence[DocumentId]) -> None:
        live: set[str] = set()
        for batch in _batches(document_ids):
            live.update(
                self._session.scalars(
                    select(Document.id).where(
                        Document.tenant_id == self._tenant_id,
                        Document.collection_id == collection_id,
                        Document.deleted_at.is_(None),
                        Document.id.in_(batch),
                    )
                )
            )
        unknown = [each for each in document_ids if each not in live]
        if unknown:
            more = f", nor are {len(unknown) - 1} others" if len(unknown) > 1 else ""
            raise NotFound(
                f"{unknown[0]} is no document of collection {collection_id}{more}.",
                remedy="List its documents with GET /v1/collections/{id}/documents.",
                document_id=unknown[0],
            )

    def set_tags(self, document_id: DocumentId, tags: Iterable[str]) -> tuple[str, ...]:
        """Make these the document's tags, in place of what it had; the tags as stored, sorted.

        Raises:
            NotFound: an unknown, deleted or foreign id.
            InvalidInput: a tag that can be none, or more than 32 of them.
        """
        cleaned = clean_document_tags(tags)
        self._hold(document_id)
        self._delete_tags(document_id)
        self._insert_tags(document_id, cleaned)
        return tuple(sorted(cleaned))

    def set_static(self, document_id: DocumentId, is_static: bool) -> None:
        """Whether what the engine computes of the document is to be kept across its restarts.

        Raises:
            NotFound: an unknown, deleted or foreign id.
        """
        self._require(self._live(document_id).with_for_update(), document_id).is_static = is_static

    def add_tags(self, document_id: DocumentId, tags: Iterable[str]) -> tuple[str, ...]:
        """Give the document these tags too, as far as it has room; those that had none.

        Raises:
            NotFound: an unknown, deleted or foreign id.
            InvalidInput: a tag that can be none.
        """
        cleaned = clean_tags(tags)
        if not cleaned:
            return ()
        self._hold(document_id)
        present = self.tags_of([document_id]).get(document_id, ())
        new = [tag for tag in cleaned if tag not in present]
        room = MAX_TAGS - len(present)
        self._insert_tags(document_id, new[:room])
        return tuple(new[room:])

    def tags_of(self, document_ids: Sequence[DocumentId]) -> dict[DocumentId, tuple[str, ...]]:
        """Each document's tags, sorted; documents without any are absent."""
        tags: defaultdict[DocumentId, list[str]] = defaultdict(list)
        for batch in _batches(document_ids):
            rows = self._session.execute(
                select(DocumentTag.document_id, DocumentTag.tag).where(
                    DocumentTag.tenant_id == self._tenant_id, DocumentTag.document_id.in_(batch)
                )
            )
            for document_id, tag in rows:
                tags[DocumentId(document_id)].append(tag)
        # Sorted here: databases order text each in its own way.
        return {document_id: tuple(sorted(each)) for document_id, each in tags.items()}

    def _hold(self, document_id: DocumentId) -> None:
        """`get`, and nobody else changes its tags before this transaction ends."""
        self._require(self._live(document_id).with_for_update(), document_id)

    def _insert_tags(self, document_id: DocumentId, tags: Sequence[str]) -> None:
        rows = [{"document_id": document_id, "tag": tag, "tenant_id": self._tenant_id} for tag in tags]
        if rows:
            self._session.execute(insert(DocumentTag), rows)

    def _delete_tags(self, document_id: DocumentId) -> None:
        self._session.execute(
            delete(DocumentTag).where(
                DocumentTag.tenant_id == self._tenant_id, DocumentTag.document_id == document_id
            )
        )

    def _has_any(self, tags: Sequence[str]) -> ColumnElement[bool]:
        tagged = select(DocumentTag.document_id).where(
            DocumentTag.tenant_id == self._tenant_id, DocumentTag.tag.in_(tags)
        )
        return Document.id.in_(tagged)

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
        self._delete_tags(document_id)
        ConversationRepository(self._session, self._tenant_id).forget_document(document_id)
        AnswerTraceRepository(self._session, self._tenant_id).forget_document(document_id)

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


def _batches(document_ids: Sequence[DocumentId]) -> Iterator[Sequence[DocumentId]]:
    return (document_ids[i : i + _IN_LIMIT] for i in range(0, len(document_ids), _IN_LIMIT))


def list_purgeable_collections(
    session: Session, *, deleted_before: datetime
) -> list[tuple[TenantId, CollectionId]]:
    """Every tenant's collections with documents to purge."""
    found = _purgeable(deleted_before).subquery()
    rows = session.execute(select(found.c.tenant_id, found.c.collection_id).distinct())
    return [(TenantId(tenant_id), CollectionId(collection_id)) for tenant_id, collection_id in rows]


def list_static_documents(session: Session) -> list[tuple[TenantId, DocumentId]]:
    """Every tenant's live documents that are marked static."""
    query = select(Document.tenant_id, Document.id).where(
        Document.is_static.is_(True), Document.deleted_at.is_(None)
    )
    return [(TenantId(tenant_id), DocumentId(name)) for tenant_id, name in session.execute(query)]


def _purgeable(deleted_before: datetime) -> Select[str, str, str]:
    return select(Document.id, Document.tenant_id, Document.collection_id).where(
        Document.deleted_at < deleted_before,
        exists().where(Page.document_id == Document.id),
    )
