"""Pages of documents and their pictures, over HTTP."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from core.ids import AnswerId, DocumentId, TenantId
from ingest.isolation import parse_isolated
from storage.answers import AnswerRepository
from storage.documents import DocumentRepository
from storage.models import Page
from storage.page_layout import pack_layout
from tests.api_fixtures import House, cite, make_answer, make_document, open_house
from tests.documents import make_pdf

YELLOW = (255, 235, 90)
LINES = ["Neptune has fourteen known moons.", "海王星有十四颗卫星。"]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with open_house(tmp_path / "home") as opened:
        yield opened


def make_pdf_document(
    house: House, *, tenant: TenantId | None = None, content: bytes = b"", name: str = "月 moons.pdf"
) -> str:
    """A ready PDF of two pages, the second with `LINES`; `content` is what its blob really holds."""
    tenant_id = tenant or house.north
    pdf = make_pdf([["First page"], LINES])
    path = house.services.settings.home / "made.pdf"
    path.write_bytes(pdf)
    writer = house.services.blobs.writer(tenant_id)
    writer.write(content or pdf)
    digest = writer.commit()
    collection_id = house.collection(tenant=tenant_id)
    with (
        parse_isolated(path, name, timeout_seconds=60, memory_bytes=4 * 1024**3) as parsed,
        house.services.database.write() as session,
    ):
        row = DocumentRepository(session, tenant_id).create(
            collection_id, name=name, content_hash=digest, num_bytes=len(pdf)
        )
        offset = 0
        for page in parsed:
            session.add(
                Page(
                    document_id=row.id,
                    number=page.number,
                    tenant_id=tenant_id,
                    start=offset,
                    end=offset + len(page.text),
                    text=page.text,
                    width=page.width,
                    height=page.height,
                    layout=pack_layout(page.lines),
                )
            )
            offset += len(page.text)
        row.status, row.media_type, row.num_pages, row.num_characters = "ready", "application/pdf", 2, offset
        return str(row.id)


def make_citing_answer(house: House, document_id: str, quote: str, *, tenant: TenantId | None = None) -> str:
    """A finished answer that cites `quote` of the document's second page."""
    tenant_id = tenant or house.north
    answer = make_answer(house, tenant=tenant_id)
    with house.services.database.write() as session:
        (page,) = DocumentRepository(session, tenant_id).list_pages(DocumentId(document_id), first=2)
        start = page.start + page.text.index(quote)
        citation = cite(document_id) | {
            "start": start, "end": start + len(quote), "first_page": 2, "last_page": 2, "quote": quote
        }  # fmt: skip
        AnswerRepository(session, tenant_id).complete(AnswerId(answer.id), citations=[citation])
    return str(answer.id)


def picture(content: bytes) -> Image.Image:
    return Image.open(io.BytesIO(content)).convert("RGB")


def marked_rows(shown: Image.Image) -> set[int]:
    return {
        y for y in range(shown.height) if any(shown.getpixel((x, y)) == YELLOW for x in range(shown.width))
    }


def test_a_page_comes_with_its_place_in_the_text(house: House) -> None:
    document_id = make_pdf_document(house)
    page = house.client.get(f"/v1/documents/{document_id}/pages/2", headers=house.key("ask")).json()
    assert (page["number"], page["num_pages"], page["width"], page["height"]) == (2, 2, 595.0, 842.0)
    assert page["text"].splitlines()[0] == LINES[0]
    text = house.client.get(f"/v1/documents/{document_id}/text", headers=house.key("ask")).json()["text"]
    assert text[page["start"] : page["end"]] == page["text"]


def test_formats_without_pages_have_one(house: House) -> None:
    document_id = make_document(house, text="四十二。Forty-two.")
    page = house.client.get(f"/v1/documents/{document_id}/pages/1", headers=house.key()).json()
    assert (page["text"], page["width"], page["num_pages"]) == ("四十二。Forty-two.", 0.0, 1)


def test_a_picture_is_a_png_of_the_width_asked_for_and_marks_nothing_by_itself(house: House) -> None:
    address = f"/v1/documents/{make_pdf_document(house)}/pages/2.png"
    response = house.client.get(address, params={"width": 300}, headers=house.key("ask"))
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "image/png"
    assert response.headers["x-content-type-options"] == "nosniff"
    shown = picture(response.content)
    assert shown.width == 300
    assert marked_rows(shown) == set()


@pytest.mark.parametrize(("quote", "top"), [("fourteen known moons.", 88), ("十四颗卫星。", 108)])
def test_what_an_answer_cites_is_marked_where_it_stands(house: House, quote: str, top: int) -> None:
    document_id = make_pdf_document(house)
    answer_id = make_citing_answer(house, document_id, quote)
    address = f"/v1/documents/{document_id}/pages"
    marked = house.client.get(
        f"{address}/2.png", params={"answer": answer_id, "width": 595}, headers=house.key()
    )
    rows = marked_rows(picture(marked.content))
    assert min(rows) == pytest.approx(top, abs=3)
    assert max(rows) == pytest.approx(top + 15, abs=3)
    other_page = house.client.get(f"{address}/1.png", params={"answer": answer_id}, headers=house.key())
    assert marked_rows(picture(other_page.content)) == set()


def test_a_picture_that_the_viewer_has_is_not_drawn_again(house: House) -> None:
    document_id = make_pdf_document(house)
    answer_id = make_citing_answer(house, document_id, "moons")
    address = f"/v1/documents/{document_id}/pages/2.png"
    bare, marked, wide = (
        house.client.get(address, params=params, headers=house.key()).headers["etag"]
        for params in ({}, {"answer": answer_id}, {"width": 1200})
    )
    assert len({bare, marked, wide}) == 3
    again = house.client.get(address, headers=house.key() | {"If-None-Match": f'"other", W/{bare}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", bare)
    assert "no-cache" in again.headers["cache-control"]


def test_anothers_documents_and_answers_do_not_exist(house: House) -> None:
    ours, theirs = make_pdf_document(house), make_pdf_document(house, tenant=house.south)
    their_answer = make_citing_answer(house, theirs, "moons", tenant=house.south)
    for address in (
        f"/v1/documents/{theirs}/pages/1",
        f"/v1/documents/{theirs}/pages/1.png",
        f"/v1/documents/{ours}/pages/1.png?answer={their_answer}",
        f"/v1/documents/{ours}/pages/1.png?answer=ans_nobodys",
        "/v1/documents/doc_nobodys/pages/1.png",
    ):
        response = house.client.get(address, headers=house.key())
        assert (response.status_code, response.json()["code"]) == (404, "not_found"), address
    assert house.client.get(f"/v1/documents/{ours}/pages/1.png").status_code == 401


@pytest.mark.parametrize("suffix", ["", ".png"])
def test_a_page_beyond_the_end_is_told_with_the_number_of_pages(house: House, suffix: str) -> None:
    document_id = make_pdf_document(house)
    response = house.client.get(f"/v1/documents/{document_id}/pages/3{suffix}", headers=house.key())
    assert (response.status_code, response.json()["num_pages"]) == (404, 2)
    assert "from 1 to 2" in response.json()["remedy"]


@pytest.mark.parametrize("page", ["0", "-1", "one", "99999999999999999999", "1.5"])
@pytest.mark.parametrize("suffix", ["", ".png"])
def test_pages_have_numbers_from_one(house: House, page: str, suffix: str) -> None:
    document_id = make_pdf_document(house)
    response = house.client.get(f"/v1/documents/{document_id}/pages/{page}{suffix}", headers=house.key())
    assert response.status_code == 422, response.text


@pytest.mark.parametrize("width", ["99", "2401", "wide", ""])
def test_widths_are_bounded(house: House, width: str) -> None:
    address = f"/v1/documents/{make_pdf_document(house)}/pages/1.png"
    response = house.client.get(address, params={"width": width}, headers=house.key())
    assert response.status_code == 422


def test_formats_without_pages_have_no_pictures_and_say_what_to_do(house: House) -> None:
    document_id = make_document(house)
    response = house.client.get(f"/v1/documents/{document_id}/pages/1.png", headers=house.key())
    assert response.status_code == 409
    assert response.json()["detail"] == "Documents of type text/plain have no page pictures."
    assert f"/v1/documents/{document_id}/pages/1" in response.json()["remedy"]


def test_a_withdrawn_document_is_shown_no_more_whoever_cites_it(house: House) -> None:
    document_id = make_pdf_document(house)
    answer_id = make_citing_answer(house, document_id, "十四颗卫星")
    address = f"/v1/documents/{document_id}/pages/2.png?answer={answer_id}"
    tag = house.client.get(address, headers=house.key()).headers["etag"]
    assert house.client.delete(f"/v1/documents/{document_id}", headers=house.key()).status_code == 204
    assert house.client.get(address, headers=house.key() | {"If-None-Match": tag}).status_code == 404
    citation = house.client.get(f"/v1/answers/{answer_id}", headers=house.key()).json()["citations"][0]
    assert (citation["withdrawn"], citation["quote"]) == (True, "十四颗卫星")


def test_a_lost_file_is_a_problem_and_no_crash(house: House) -> None:
    document_id = make_pdf_document(house)
    for path in house.services.settings.blob_dir.rglob("*"):
        if path.is_file():
            path.unlink()
    response = house.client.get(f"/v1/documents/{document_id}/pages/1.png", headers=house.key())
    assert response.status_code == 404
    assert "stored file" in response.json()["detail"]


def test_a_file_that_cannot_be_drawn_is_a_problem_and_the_api_lives_on(house: House) -> None:
    document_id = make_pdf_document(house, content=b"%PDF-1.7\nnothing of it is true")
    response = house.client.get(f"/v1/documents/{document_id}/pages/1.png", headers=house.key())
    assert (response.status_code, response.json()["code"]) == (422, "unreadable_document")
    assert house.client.get(f"/v1/documents/{document_id}/pages/1", headers=house.key()).status_code == 200


def test_a_document_in_work_is_a_conflict(house: House) -> None:
    collection_id = house.collection()
    with house.services.database.write() as session:
        row = DocumentRepository(session, house.north).create(
            collection_id, name="a.pdf", content_hash="0" * 64, num_bytes=1
        )
        document_id = row.id
    for suffix in ("", ".png"):
        response = house.client.get(f"/v1/documents/{document_id}/pages/1{suffix}", headers=house.key())
        assert response.status_code == 409
