"""Summaries over HTTP: what is accepted, shown, served as Markdown and HTML, compared and refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from accounting.price_book import load_price_book
from accounting.price_sync import sync_price_book
from core.clock import utc_now
from core.ids import DocumentId, SummaryId
from storage.summaries import SummaryRepository
from tests.api_fixtures import House, make_document, open_house


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("summaries")) as house:
        yield house


@pytest.fixture(scope="module")
def document_id(house: House) -> str:
    return str(make_document(house))


@pytest.fixture(scope="module")
def collection_id(house: House, document_id: str) -> str:
    document = house.client.get(f"/v1/documents/{document_id}", headers=house.key()).json()
    return str(document["collection_id"])


def create(house: House, collection_id: str, **body: Any) -> Any:
    given = {"collection_id": collection_id} | body
    return house.client.post("/v1/summaries", headers=house.key("ask"), json=given)


def finish(house: House, summary_id: str, document_id: str, *texts: str) -> None:
    """What a worker would have written."""
    citation = {
        "document_id": document_id,
        "document_name": "<b>a</b>.txt",
        "start": 0,
        "end": 4,
        "first_page": 1,
        "last_page": 1,
        "boxes": [],
    }
    result = {
        "text": " ".join(texts),
        "statements": [
            {"text": text, "start": 0, "end": len(text), "citations": [n], "supported": True}
            for n, text in enumerate(texts, start=1)
        ],
        "citations": [citation | {"number": n, "quote": text} for n, text in enumerate(texts, start=1)],
        "warnings": [],
        "writer": "extractive",
    }
    with house.services.database.write() as session:
        summaries = SummaryRepository(session, house.north)
        summaries.finish_document(
            SummaryId(summary_id), DocumentId(document_id), num_pages=2, num_pages_read=1, num_pages_empty=1
        )
        summaries.complete(SummaryId(summary_id), outcome="complete", result=result, at=utc_now())


def read(house: House, path: str, **headers: str) -> Any:
    return house.client.get(f"/v1/summaries{path}", headers=house.key("ask") | headers)


def test_a_summary_is_accepted_listed_and_has_versions(house: House, collection_id: str) -> None:
    response = create(house, collection_id, length="long", max_cost="0.5")
    assert response.status_code == 202
    made = response.json()
    assert response.headers["location"] == f"/v1/summaries/{made['id']}"
    assert (made["status"], made["version"], made["text"]) == ("queued", 1, None)
    assert made["coverage"]["num_documents"] == 1
    job = house.client.get(f"/v1/jobs/{made['job_id']}", headers=house.key("ask")).json()
    assert (job["kind"], job["queue"]) == ("summarize", "batch")
    again = create(house, collection_id, length="long").json()
    assert again["version"] == 2  # a limit is no part of what a summary is
    assert create(house, collection_id, style="key_points").json()["version"] == 1
    versions = read(house, f"?versions_of={made['id']}").json()["items"]
    assert [each["id"] for each in versions] == [again["id"], made["id"]]


def test_what_is_finished_is_served_as_json_markdown_and_html(
    house: House, collection_id: str, document_id: str
) -> None:
    made = create(house, collection_id, length_tokens=50).json()
    finish(house, made["id"], document_id, "Forty-two *stars* <i>.", "四十二。")
    shown = read(house, f"/{made['id']}").json()
    assert (shown["outcome"], shown["coverage"]["share"]) == ("complete", 1.0)
    assert shown["citations"][0]["withdrawn"] is False
    markdown = read(house, f"/{made['id']}?format=markdown")
    assert markdown.headers["content-type"] == "text/markdown; charset=utf-8"
    assert "Forty-two \\*stars\\* \\<i\\>. [1]" in markdown.text
    page = read(house, f"/{made['id']}", Accept="text/html,application/json;q=0.5")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "&lt;i&gt;" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    [document] = read(house, f"/{made['id']}/documents").json()["items"]
    assert (document["document_id"], document["num_pages_read"]) == (document_id, 1)


def test_versions_are_compared(house: House, collection_id: str, document_id: str) -> None:
    first = create(house, collection_id, length_tokens=60).json()
    assert read(house, f"/{first['id']}/diff").status_code == 409
    finish(house, first["id"], document_id, "One stays.", "Two goes.")
    second = create(house, collection_id, length_tokens=60).json()
    assert read(house, f"/{second['id']}/diff").json()["code"] == "conflict"
    finish(house, second["id"], document_id, "One stays.", "A third statement comes.")
    found = read(house, f"/{second['id']}/diff").json()
    assert (found["before"], found["after"]) == (first["id"], second["id"])
    assert (found["added"], found["removed"]) == (["A third statement comes."], ["Two goes."])
    assert read(house, f"/{second['id']}/diff?against={second['id']}").json()["num_same"] == 2


def test_a_quote_tells_price_and_tokens_and_makes_nothing(house: House, collection_id: str) -> None:
    with house.services.database.write() as session:
        sync_price_book(session, load_price_book(), now=utc_now())
    before = len(read(house, "").json()["items"])
    response = house.client.post(
        "/v1/summaries/quotes", headers=house.key("ask"), json={"collection_id": collection_id}
    )
    assert response.is_success, response.text
    quote = response.json()
    assert quote["mode"] == "extractive"
    assert {line["stage"] for line in quote["lines"]} == {"embed"}
    assert float(quote["price"]["high"]) >= float(quote["price"]["expected"])
    assert len(read(house, "").json()["items"]) == before


def test_the_same_idempotency_key_makes_one_summary(house: House, collection_id: str) -> None:
    headers = house.key("ask") | {"Idempotency-Key": "summary-1"}
    body = {"collection_id": collection_id}
    ids = {house.client.post("/v1/summaries", headers=headers, json=body).json()["id"] for _ in range(2)}
    assert len(ids) == 1


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ({"style": "prompt"}, "empty_input", "says nothing"),
        ({"style": "prompt", "prompt": "写 {风险}"}, "invalid_input", "{风险}"),
        ({"filter": {"tags": ["none"]}}, "empty_input", "filter"),
        ({"method": "refine", "style": "changes_since_last"}, "invalid_input", "narrative"),
        ({"max_cost": "-1"}, "invalid_input", "max_cost"),
        ({"length_tokens": 1}, "invalid_input", "length_tokens"),
    ],
)
def test_what_cannot_be_summarized_is_refused(
    house: House, collection_id: str, body: dict[str, Any], code: str, words: str
) -> None:
    response = create(house, collection_id, **body)
    assert (response.status_code, response.json()["code"]) == (422, code)
    assert words in response.text
