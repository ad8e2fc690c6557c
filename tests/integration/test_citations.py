"""Citations held against what SQL has of their documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.ids import DocumentId, TenantId, new_id
from generation.citations import CitationVerifier, Quote
from ingest.parsers import parse
from storage.collections import CollectionRepository
from storage.database import Database
from storage.documents import DocumentRepository
from storage.models import Page, Tenant
from storage.page_layout import pack_layout
from tests.documents import make_pdf

FIRST = ["Neptune has fourteen known moons. Triton is the", "largest of them."]
SECOND = ["海王星有十四颗卫星。海卫一最大，它的质量", "占全部卫星的百分之九十九。"]


@pytest.fixture
def tenant_id(database: Database) -> TenantId:
    tenant_id = TenantId(new_id("ten"))
    with database.write() as session:
        session.add(Tenant(id=tenant_id, name=tenant_id))
    return tenant_id


@pytest.fixture
def document(database: Database, tenant_id: TenantId, tmp_path: Path) -> tuple[DocumentId, str]:
    """A document of two PDF pages, and its text."""
    path = tmp_path / "moons.pdf"
    path.write_bytes(make_pdf([FIRST, SECOND]))
    _, pages = parse(path, "moons.pdf")
    text = ""
    with database.write() as session:
        collection = CollectionRepository(session, tenant_id).create("papers")
        row = DocumentRepository(session, tenant_id).create(
            collection.id,  # type: ignore[arg-type]
            name="moons.pdf",
            content_hash="0" * 64,
            num_bytes=1,
        )
        for page in pages:
            session.add(
                Page(
                    document_id=row.id,
                    number=page.number,
                    tenant_id=tenant_id,
                    start=len(text),
                    end=len(text) + len(page.text),
                    text=page.text,
                    width=page.width,
                    height=page.height,
                    layout=pack_layout(page.lines),
                )
            )
            text += page.text
        return DocumentId(row.id), text


def quote_of(document: tuple[DocumentId, str], first: str, last: str = "", *, shown: str = "") -> Quote:
    """From where `first` begins to where `last` ends; `shown` is what it claims to read."""
    document_id, text = document
    start = text.index(first)
    end = text.index(last or first) + len(last or first)
    return Quote(document_id, "moons.pdf", start, end, shown or text[start:end])


def test_a_quote_has_a_box_a_line_on_the_page_where_it_stands(
    database: Database, tenant_id: TenantId, document: tuple[DocumentId, str]
) -> None:
    (citation,) = CitationVerifier(database).verify(
        tenant_id, [quote_of(document, "Triton is", "largest of them.")]
    )
    upper, lower = citation.boxes
    assert (upper.page, upper.page_width, upper.page_height) == (1, 595.0, 842.0)
    assert upper.x0 > 150, "it begins in the middle of its line"
    assert (lower.x0, lower.y0) == (pytest.approx(72, abs=2), pytest.approx(109, abs=3))
    assert upper.y1 < lower.y1
    assert citation.as_json()["boxes"][0]["page"] == 1


def test_chinese_on_another_page_has_its_boxes_there(
    database: Database, tenant_id: TenantId, document: tuple[DocumentId, str]
) -> None:
    (citation,) = CitationVerifier(database).verify(
        tenant_id, [quote_of(document, "海卫一最大", "百分之九十九。")]
    )
    assert (citation.first_page, citation.last_page) == (2, 2)
    assert [box.page for box in citation.boxes] == [2, 2]
    assert citation.boxes[0].x0 == pytest.approx(72 + 10 * 12, abs=15)


def test_a_quote_over_two_pages_has_boxes_on_both(
    database: Database, tenant_id: TenantId, document: tuple[DocumentId, str]
) -> None:
    (citation,) = CitationVerifier(database).verify(
        tenant_id, [quote_of(document, "largest of them.", "海王星有十四颗卫星。")]
    )
    assert (citation.first_page, citation.last_page) == (1, 2)
    assert [box.page for box in citation.boxes] == [1, 2]


def test_white_space_may_differ_and_the_source_is_what_is_shown(
    database: Database, tenant_id: TenantId, document: tuple[DocumentId, str]
) -> None:
    shown = "Triton is the largest of them."
    (citation,) = CitationVerifier(database).verify(
        tenant_id, [quote_of(document, "Triton is", "largest of them.", shown=shown)]
    )
    assert citation.quote == "Triton is the\nlargest of them."


@pytest.mark.parametrize(
    "shown", ["Neptune has fifteen known moons.", "Neptune has fourteen known moons", " "]
)
def test_what_the_source_does_not_say_is_dropped_and_takes_no_number(
    database: Database, tenant_id: TenantId, document: tuple[DocumentId, str], shown: str
) -> None:
    wrong = quote_of(document, "Neptune has fourteen known moons.", shown=shown)
    right = quote_of(document, "海王星有十四颗卫星。")
    (citation,) = CitationVerifier(database).verify(tenant_id, [wrong, right, right])
    assert (citation.number, citation.quote) == (1, "海王星有十四颗卫星。")


def test_anothers_document_is_quoted_by_nobody(
    database: Database, tenant_id: TenantId, document: tuple[DocumentId, str]
) -> None:
    quote = quote_of(document, "Neptune has fourteen known moons.")
    assert CitationVerifier(database).verify(TenantId(new_id("ten")), [quote]) == []
    nowhere = Quote(DocumentId("doc_nowhere"), "", 0, 5, "Neptu")
    beyond = Quote(quote.document_id, "", 10_000, 10_005, "Neptu")
    assert CitationVerifier(database).verify(tenant_id, [nowhere, beyond]) == []
