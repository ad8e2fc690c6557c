"""Collections of a tenant."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Select, delete, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from core.clock import utc_now
from core.errors import Conflict, NotFound
from core.ids import CollectionId, TenantId, new_id
from storage.answer_traces import AnswerTraceRepository
from storage.models import Chunk, Collection, Document, DocumentTag
from storage.paging import Page, PageRequest, paginate


class CollectionRepository:
    """Sees only its tenant's collections; another tenant's do not exist."""

    def __init__(self, session: Session, tenant_id: TenantId) -> None:
        self._session = session
        self._tenant_id = tenant_id

    def create(self, name: str) -> Collection:
        """A new, empty collection.

        Raises:
            Conflict: the tenant has a live collection of that name.
        """
        collection = Collection(id=new_id("col"), tenant_id=self._tenant_id, name=name)
        self._session.add(collection)
        try:
            self._session.flush()
        except IntegrityError as error:
            raise Conflict(
                f"A collection named {name!r} exists already.",
                remedy="Use it, or choose another name.",
                name=name,
            ) from error
        return collection

    def get(self, collection_id: CollectionId) -> Collection:
        """Raises `NotFound` for an unknown, deleted or foreign id."""
        return self._require(self._live(collection_id), collection_id)

    def hold(self, collection_id: CollectionId) -> Collection:
        """As `get`, and nobody can delete it before this transaction ends."""
        return self._require(self._live(collection_id).with_for_update(read=True), collection_id)

    def _live(self, collection_id: CollectionId) -> Select[Collection]:
        return select(Collection).where(
            Collection.id == collection_id,
            Collection.tenant_id == self._tenant_id,
            Collection.deleted_at.is_(None),
        )

    def _require(self, query: Select[Collection], collection_id: CollectionId) -> Collection:
        found = self._session.scalar(query)
        if found is None:
            raise NotFound(
                f"There is no collection {collection_id}.",
                remedy="List yours with GET /v1/collections.",
                collection_id=collection_id,
            )
        return found

    def find_by_name(self, name: str) -> Collection | None:
        return self._session.scalar(
            select(Collection).where(
                Collection.name == name,
                Collection.tenant_id == self._tenant_id,
                Collection.deleted_at.is_(None),
            )
        )

    def list_page(self, page: PageRequest) -> Page[Collection]:
        """Oldest first."""
        query = select(Collection).where(
            Collection.tenant_id == self._tenant_id, Collection.deleted_at.is_(None)
        )
        return paginate(self._session, query, Collection, page)

    def delete(self, collection_id: CollectionId, *, at: datetime | None = None) -> None:
        """Unfindable at once, with its documents; chunks go with it, the ledger stays."""
        moment = at or utc_now()
        collection = self.get(collection_id)
        collection.deleted_at = moment
        self._session.execute(
            update(Document)
            .where(
                Document.tenant_id == self._tenant_id,
                Document.collection_id == collection_id,
                Document.deleted_at.is_(None),
            )
            .values(deleted_at=moment)
        )
        AnswerTraceRepository(self._session, self._tenant_id).forget_collection(collection_id)
        documents = select(Document.id).where(
            Document.tenant_id == self._tenant_id, Document.collection_id == collection_id
        )
        self._session.execute(
            delete(DocumentTag)
            .where(DocumentTag.tenant_id == self._tenant_id, DocumentTag.document_id.in_(documents))
            .execution_options(synchronize_session=False)
        )
        chunks = Chunk.__table__
        self._session.execute(
            chunks.delete().where(  # type: ignore[attr-defined]
                chunks.c.tenant_id == self._tenant_id, chunks.c.collection_id == collection_id
            )
        )
