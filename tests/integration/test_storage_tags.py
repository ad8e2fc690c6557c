"""Tags and filters of documents on both databases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from core.errors import InvalidInput, NotFound
from core.ids import CollectionId, DocumentId, TenantId, content_hash
from storage.collections import CollectionRepository
from storage.database import Database
from storage.documents import DocumentRepository
from storage.models import DocumentTag
from storage.paging import PageRequest
from storage.tags import MAX_TAGS
from tenancy.tenants import create_tenant

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class House:
    """`collection_id` is of `north`; `south` is another tenant, with a collection of its own."""

    database: Database
    north: TenantId
    south: TenantId
    collection_id: CollectionId
    southern: CollectionId

    @contextmanager
    def documents(self, tenant_id: TenantId | None = None) -> Iterator[DocumentRepository]:
        with self.database.write() as session:
            yield DocumentRepository(session, tenant_id or self.north)

    def add(
        self,
        name: str,
        *,
        tags: Sequence[str] = (),
        day: int = 0,
        status: str = "ready",
        collection_id: CollectionId | None = None,
        tenant_id: TenantId | None = None,
    ) -> DocumentId:
        with self.documents(tenant_id) as documents:
            row = documents.create(
                collection_id or self.collection_id,
                name=name,
                content_hash=content_hash(name),
                num_bytes=1,
            )
            row.status, row.created_at = status, START + timedelta(days=day)
            documents.set_tags(DocumentId(row.id), tags)
            return DocumentId(row.id)


@pytest.fixture
def house(database: Database) -> House:
    with database.write() as session:
        north = TenantId(create_tenant(session, name="北方", now=START).id)
        south = TenantId(create_tenant(session, name="south", now=START).id)
        return House(
            database,
            north,
            south,
            CollectionId(CollectionRepository(session, north).create("合同 contracts").id),
            CollectionId(CollectionRepository(session, south).create("合同 contracts").id),
        )


def test_setting_tags_replaces_them(house: House) -> None:
    document_id = house.add("a", tags=["合同", "Draft"])
    other = house.add("b")
    with house.documents() as documents:
        assert documents.tags_of([document_id, other]) == {document_id: ("draft", "合同")}
        assert documents.set_tags(document_id, ["终稿", "合同", "合同 "]) == ("合同", "终稿")
        assert documents.tags_of([document_id]) == {document_id: ("合同", "终稿")}
        assert documents.set_tags(document_id, []) == ()
        assert documents.tags_of([document_id]) == {}


def test_added_tags_fill_the_room_that_is_left(house: House) -> None:
    document_id = house.add("a", tags=[f"标签{i}" for i in range(MAX_TAGS - 1)])
    with house.documents() as documents:
        assert documents.add_tags(document_id, ["标签0", "one", "TWO", "三"]) == ("two", "三")
        assert len(documents.tags_of([document_id])[document_id]) == MAX_TAGS
        assert documents.add_tags(document_id, ["one"]) == ()


def test_a_bad_tag_changes_nothing(house: House) -> None:
    document_id = house.add("a", tags=["keep"])
    for tags in (["fine", "no,no"], [f"{i}" for i in range(MAX_TAGS + 1)]):
        with pytest.raises(InvalidInput), house.documents() as documents:
            documents.set_tags(document_id, tags)
    with house.documents() as documents:
        assert documents.tags_of([document_id]) == {document_id: ("keep",)}


def test_tags_of_another_tenant_are_neither_seen_nor_changed(house: House) -> None:
    theirs = house.add("a", tags=["secret"], collection_id=house.southern, tenant_id=house.south)
    with house.documents() as documents:
        assert documents.tags_of([theirs]) == {}
        for change in (documents.set_tags, documents.add_tags):
            with pytest.raises(NotFound):
                change(theirs, ["mine"])
        assert documents.find_filtered(house.southern, tags=["secret"]) == []
        with pytest.raises(NotFound, match=theirs):
            documents.find_filtered(house.collection_id, document_ids=[theirs])


def test_a_filter_without_conditions_lets_every_ready_document_pass(house: House) -> None:
    first, second = house.add("a", day=1), house.add("b", day=2)
    house.add("c", status="processing")
    house.add("d", status="failed")
    with house.documents() as documents:
        assert documents.find_filtered(house.collection_id) == [first, second]


def test_tags_are_met_by_any_of_them_however_they_are_typed(house: House) -> None:
    first = house.add("a", tags=["Finance", "2026"], day=1)
    second = house.add("b", tags=["财务"], day=2)
    house.add("c", tags=["other"], day=3)
    with house.documents() as documents:
        find = documents.find_filtered
        assert find(house.collection_id, tags=["FINANCE", " 财务"]) == [first, second]
        assert find(house.collection_id, tags=["２０２６"]) == [first]
        assert find(house.collection_id, tags=["unknown 未知"]) == []
        with pytest.raises(InvalidInput):
            find(house.collection_id, tags=[""])


def test_every_condition_must_be_met(house: House) -> None:
    days = [house.add(f"{i}", tags=["even" if i % 2 == 0 else "奇数"], day=i) for i in range(6)]
    with house.documents() as documents:
        find = documents.find_filtered
        since, before = START + timedelta(days=2), START + timedelta(days=5)
        assert find(house.collection_id, uploaded_from=since) == days[2:]
        assert find(house.collection_id, uploaded_before=before) == days[:5]
        assert find(house.collection_id, uploaded_from=since, uploaded_before=before, tags=["奇数"]) == [
            days[3]
        ]
        assert find(house.collection_id, document_ids=[days[1], days[3], days[1]], tags=["even"]) == []
        assert find(house.collection_id, uploaded_from=before, uploaded_before=since) == []


def test_an_unknown_document_is_named(house: House) -> None:
    known, gone = house.add("a"), house.add("b", tags=["x"])
    with house.documents() as documents:
        documents.delete(gone)
    elsewhere = house.add("c", collection_id=house.southern, tenant_id=house.south)
    for unknown in (DocumentId("doc_nothing"), gone, elsewhere, DocumentId("文档")):
        with house.documents() as documents, pytest.raises(NotFound, match=unknown) as caught:
            documents.find_filtered(house.collection_id, document_ids=[known, unknown])
        assert caught.value.context["document_id"] == unknown
    with house.documents() as documents, pytest.raises(NotFound, match="nor are 1 others"):
        documents.find_filtered(house.collection_id, document_ids=[gone, elsewhere])


def test_a_document_that_is_not_ready_is_known_but_does_not_pass(house: House) -> None:
    waiting = house.add("a", status="processing")
    with house.documents() as documents:
        assert documents.find_filtered(house.collection_id, document_ids=[waiting]) == []


def test_more_documents_than_one_statement_takes(house: House) -> None:
    with house.documents() as documents:
        made = [
            documents.create(house.collection_id, name=f"{i}", content_hash=f"{i}", num_bytes=1)
            for i in range(1100)
        ]
        for i, row in enumerate(made):
            row.status, row.created_at = "ready", START + timedelta(seconds=i)
    wanted = [DocumentId(row.id) for row in made]
    with house.documents() as documents:
        assert documents.find_filtered(house.collection_id, document_ids=wanted[::-1]) == wanted


def test_documents_are_listed_by_tag(house: House) -> None:
    first = house.add("a", tags=["合同"])
    house.add("b", tags=["invoice"])
    third = house.add("c", tags=["Lease", "合同"], status="processing")
    with house.documents() as documents:
        page = documents.list_page(house.collection_id, PageRequest(), tags=["合同", "LEASE"])
        assert {row.id for row in page.items} == {first, third}
        assert len(page.items) == 2


def test_a_deleted_document_and_a_deleted_collection_leave_no_tags(house: House) -> None:
    document_id = house.add("a", tags=["x"])
    house.add("b", tags=["y"])
    theirs = house.add("c", tags=["z"], collection_id=house.southern, tenant_id=house.south)
    with house.documents() as documents:
        documents.delete(document_id)
        with pytest.raises(NotFound):
            documents.set_tags(document_id, ["back"])
    with house.database.write() as session:
        CollectionRepository(session, house.north).delete(house.collection_id)
    with house.database.read() as session:
        assert [(row.document_id, row.tag) for row in session.query(DocumentTag)] == [(theirs, "z")]
