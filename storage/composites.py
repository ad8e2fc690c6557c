"""What a job makes out of parts: batches and their lines, evaluations, extractions, summaries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from sqlalchemy import ColumnElement, Select, insert, select, update
from sqlalchemy.orm import Session

from core.errors import NotFound
from core.ids import CollectionId, JobId, TenantId
from storage.models import Collection
from storage.paging import Page, PageRequest, paginate

Whole = TypeVar("Whole")
Part = TypeVar("Part")
WholeId = TypeVar("WholeId", bound=str)

READ_PARTS = 200
_INSERT_PARTS = 500


class CompositeRepository(Generic[Whole, Part, WholeId]):
    """Sees only its tenant's wholes and parts.

    A whole has `id tenant_id job_id collection_id created_at`, a part `position tenant_id` and the id of its
    whole, in the column `NOUN_id`.
    """

    model: ClassVar[Any]
    part: ClassVar[Any]
    noun: ClassVar[str]
    plural: ClassVar[str]

    def __init__(self, session: Session, tenant_id: TenantId) -> None:
        self._session = session
        self._tenant_id = tenant_id

    def get(self, identifier: WholeId) -> Whole:
        """As it is in the database now. Raises `NotFound` for an unknown or foreign id."""
        query = self._wholes(self.model.id == identifier)
        found: Whole | None = self._session.scalar(query.execution_options(populate_existing=True))
        if found is None:
            raise NotFound(
                f"There is no {self.noun} {identifier}.",
                remedy=f"List yours with GET /v1/{self.plural}.",
                **{f"{self.noun}_id": identifier},
            )
        return found

    def find_by_job(self, job_id: JobId) -> Whole | None:
        found: Whole | None = self._session.scalar(self._wholes(self.model.job_id == job_id))
        return found

    def list_page(self, page: PageRequest, *, collection_id: CollectionId | None = None) -> Page[Whole]:
        return self._paginate(page, collection_id=collection_id)

    def collection_name(self, whole: Any) -> str:
        """Of the collection that it is about, deleted or not."""
        query = select(Collection.name).where(
            Collection.id == whole.collection_id, Collection.tenant_id == self._tenant_id
        )
        return self._session.scalar(query) or str(whole.collection_id)

    def list_parts(self, identifier: WholeId, *, first: int = 0, limit: int = READ_PARTS) -> Sequence[Part]:
        """At most `limit` parts from position `first` on, in order."""
        return self._list_parts(identifier, first=first, limit=limit)

    def all_parts(self, identifier: WholeId) -> Iterator[Part]:
        """Every part, in order, some hundreds at a time."""
        first = 0
        while parts := self.list_parts(identifier, first=first):
            yield from parts
            last: Any = parts[-1]
            first = last.position + 1

    # ---- for the repositories that are one -------------------------------------------------

    def _paginate(
        self, page: PageRequest, *conditions: ColumnElement[bool], collection_id: CollectionId | None = None
    ) -> Page[Whole]:
        query = self._wholes(*conditions)
        if collection_id is not None:
            query = query.where(self.model.collection_id == collection_id)
        return paginate(self._session, query, self.model, page)

    def _list_parts(
        self, identifier: WholeId, *conditions: ColumnElement[bool], first: int = 0, limit: int | None = None
    ) -> Sequence[Part]:
        query = self._parts(identifier, self.part.position >= first, *conditions)
        return self._session.scalars(query.order_by(self.part.position).limit(limit)).all()

    def _first_part(self, identifier: WholeId, *conditions: ColumnElement[bool]) -> Part | None:
        return next(iter(self._list_parts(identifier, *conditions, limit=1)), None)

    def _add_parts(self, rows: Sequence[Mapping[str, Any]]) -> None:
        for i in range(0, len(rows), _INSERT_PARTS):
            self._session.execute(insert(self.part), rows[i : i + _INSERT_PARTS])

    def _wholes(self, *conditions: ColumnElement[bool]) -> Select[Any]:
        return select(self.model).where(self.model.tenant_id == self._tenant_id, *conditions)

    def _parts(self, identifier: WholeId, *conditions: ColumnElement[bool]) -> Select[Any]:
        whole_id = getattr(self.part, f"{self.noun}_id")
        return select(self.part).where(
            whole_id == identifier, self.part.tenant_id == self._tenant_id, *conditions
        )

    def _set(self, identifier: WholeId, **values: Any) -> None:
        self._session.execute(
            update(self.model)
            .where(self.model.id == identifier, self.model.tenant_id == self._tenant_id)
            .values(**values)
        )

    def _set_part(self, identifier: WholeId, *conditions: ColumnElement[bool], **values: Any) -> int:
        """How many parts were set."""
        whole_id = getattr(self.part, f"{self.noun}_id")
        result = self._session.execute(
            update(self.part)
            .where(whole_id == identifier, self.part.tenant_id == self._tenant_id, *conditions)
            .values(**values)
            .execution_options(synchronize_session=False)
        )
        return int(result.rowcount)  # type: ignore[attr-defined]
