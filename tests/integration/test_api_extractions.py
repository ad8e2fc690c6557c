"""Forms of answers and tables over HTTP: what is accepted, shown, refused and downloaded."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.clock import utc_now
from core.ids import DocumentId, ExtractionId
from storage.extractions import ExtractionRepository
from tests.api_fixtures import House, make_document, open_house

SCHEMA = {
    "type": "object",
    "properties": {"名称": {"type": "string", "description": "公司名称"}, "revenue": {"type": "integer"}},
}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("extractions")) as house:
        yield house


@pytest.fixture(scope="module")
def collection_id(house: House) -> str:
    document = house.client.get(f"/v1/documents/{make_document(house)}", headers=house.key()).json()
    return str(document["collection_id"])


def create(house: House, collection_id: str, **body: Any) -> Any:
    given = {"collection_id": collection_id, "schema": SCHEMA} | body
    return house.client.post("/v1/extractions", headers=house.key("ask"), json=given)


def test_a_table_is_accepted_with_its_columns_in_order_and_a_row_for_each_document(
    house: House, collection_id: str
) -> None:
    response = create(house, collection_id, instructions="按年报填写", method="rule")
    assert response.status_code == 202
    made = response.json()
    assert response.headers["location"] == f"/v1/extractions/{made['id']}"
    assert (made["status"], made["columns"], made["num_done"]) == ("queued", ["名称", "revenue"], 0)
    assert made["parameters"]["schema"] == SCHEMA
    job = house.client.get(f"/v1/jobs/{made['job_id']}", headers=house.key("ask")).json()
    assert (job["kind"], job["queue"]) == ("extract", "batch")
    rows = house.client.get(f"/v1/extractions/{made['id']}/rows", headers=house.key("ask")).json()["items"]
    assert len(rows) == made["num_documents"] >= 1
    assert rows[0]["outcome"] is None
    listed = house.client.get(
        f"/v1/extractions?collection_id={collection_id}", headers=house.key("ask")
    ).json()
    assert made["id"] in [item["id"] for item in listed["items"]]


def test_what_is_filled_can_be_read_by_page_and_downloaded(house: House, collection_id: str) -> None:
    made = create(house, collection_id).json()
    [row, *_] = house.client.get(f"/v1/extractions/{made['id']}/rows", headers=house.key("ask")).json()[
        "items"
    ]
    citation = {"quote": "四十二。", "first_page": 1, "last_page": 1, "start": 0, "end": 4}
    cell = {"value": "四十二", "text": "四十二", "start": 0, "end": 3, "citation": citation}
    with house.services.database.write() as session:
        ExtractionRepository(session, house.north).finish_row(
            ExtractionId(made["id"]),
            DocumentId(row["document_id"]),
            outcome="partial",
            cells={"名称": cell, "revenue": {"value": None, "reason": "not_stated", "detail": "…"}},
            trail=[],
            at=utc_now(),
        )
    first = house.client.get(f"/v1/extractions/{made['id']}/rows?limit=1", headers=house.key("ask")).json()
    assert first["items"][0]["cells"]["名称"]["value"] == "四十二"
    download = house.client.get(f"/v1/extractions/{made['id']}/rows.csv", headers=house.key("ask"))
    assert download.headers["content-type"] == "text/csv; charset=utf-8"
    header, line, *_ = csv.reader(io.StringIO(download.text))
    shown = dict(zip(header, line, strict=True))
    assert (shown["名称"], shown["名称 (page)"], shown["名称 (quote)"]) == ("四十二", "1", "四十二。")


def test_a_row_says_that_its_document_was_deleted_since(tmp_path: Path) -> None:
    with open_house(tmp_path) as house:
        document_id = make_document(house)
        document = house.client.get(f"/v1/documents/{document_id}", headers=house.key()).json()
        rows = f"/v1/extractions/{create(house, document['collection_id']).json()['id']}/rows"

        def withdrawn() -> list[bool]:
            items = house.client.get(rows, headers=house.key("ask")).json()["items"]
            return [row["withdrawn"] for row in items]

        assert withdrawn() == [False]
        assert house.client.delete(f"/v1/documents/{document_id}", headers=house.key()).status_code < 300
        assert withdrawn() == [True]


def test_the_same_idempotency_key_makes_one_table(house: House, collection_id: str) -> None:
    headers = house.key("ask") | {"Idempotency-Key": "table-1"}
    body = {"collection_id": collection_id, "schema": SCHEMA}
    ids = {house.client.post("/v1/extractions", headers=headers, json=body).json()["id"] for _ in range(2)}
    assert len(ids) == 1


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ({"schema": {"type": "nope"}}, "invalid_input", "not a JSON schema"),
        ({"schema": {"type": "object"}}, "invalid_input", "columns"),
        ({"schema": {"type": "object", "properties": {"x": {"type": "object"}}}}, "invalid_input", "'x'"),
        (
            {"schema": {"properties": {"x": {"type": "string", "pattern": "(a+)+"}}}},
            "invalid_input",
            "repetition",
        ),
        ({"filter": {"tags": ["none"]}}, "empty_input", "filter"),
        ({"instructions": "x" * 3000}, "too_long", "instructions"),
    ],
)
def test_a_table_that_cannot_be_is_refused_at_once(
    house: House, collection_id: str, body: dict[str, Any], code: str, words: str
) -> None:
    response = create(house, collection_id, **body)
    assert (response.status_code, response.json()["code"]) == (422, code)
    assert words in response.json()["detail"]


def ask(house: House, collection_id: str, **body: Any) -> Any:
    given = {"question": "多少？", "wait_seconds": 0} | body
    return house.client.post(
        f"/v1/collections/{collection_id}/questions", headers=house.key("ask"), json=given
    )


@pytest.mark.parametrize(
    "form",
    [
        {"type": "json_schema", "schema": SCHEMA},
        {"type": "regex", "pattern": r"\d{4}年"},
        {"type": "choice", "choices": ["是", "否"]},
        {"type": "grammar", "grammar": 'root ::= "a" | "b"'},
        {"type": "date", "style": "chinese"},
        {"type": "date"},
    ],
)
def test_a_question_may_ask_for_a_form(house: House, collection_id: str, form: dict[str, Any]) -> None:
    response = ask(house, collection_id, format=form, must_include=[])
    assert response.status_code == 202, response.text
    assert response.json()["output"] is None


@pytest.mark.parametrize(
    "body",
    [
        {"format": {"type": "json_schema", "schema": {"type": "nope"}}},
        {"format": {"type": "json_schema", "schema": {"$ref": "#"}}},
        {"format": {"type": "regex", "pattern": "(.{0,50}){0,50}x"}},
        {"format": {"type": "regex", "pattern": "a{1000000}"}},
        {"format": {"type": "choice", "choices": []}},
        {"format": {"type": "grammar", "grammar": 'root ::= "a" root'}},
        {"format": {"type": "date", "style": "roman"}},
        {"format": {"type": "xml"}},
        {"format": "json"},
        {"format": {"type": "date"}, "mode": "extractive"},
        {"must_include": ["a\nb"]},
        {"must_include": ["x"] * 30},
        {"max_repairs": 9},
        {"format": {"type": "date"}, "stop": ["-"]},
    ],
)
def test_a_form_that_cannot_be_held_is_refused_before_anything_runs(
    house: House, collection_id: str, body: dict[str, Any]
) -> None:
    response = ask(house, collection_id, **body)
    assert response.status_code == 422, response.text
    assert response.json()["code"] in ("invalid_input", "invalid_request")


@pytest.mark.parametrize("depth", [60, 150, 250, 20_000])  # storing fails at 200, parsing at 1,000
def test_json_nested_beyond_what_is_taken_is_refused(house: House, collection_id: str, depth: int) -> None:
    deep = '{"items":' * depth + "{}" + "}" * depth
    key = house.key("ask") | {"Content-Type": "application/json"}
    asked = f'{{"question": "x", "wait_seconds": 0, "format": {{"type": "json_schema", "schema": {deep}}}}}'
    table = f'{{"collection_id": "{collection_id}", "schema": {deep}}}'
    for path, text in ((f"/v1/collections/{collection_id}/questions", asked), ("/v1/extractions", table)):
        response = house.client.post(path, headers=key, content=text)
        assert response.status_code in (400, 413, 422), response.text


def test_a_schema_of_half_characters_is_refused(house: House, collection_id: str) -> None:
    body = '{"question": "x", "format": {"type": "json_schema", "schema": {"title": "\\ud800"}}}'
    response = house.client.post(
        f"/v1/collections/{collection_id}/questions",
        headers=house.key("ask") | {"Content-Type": "application/json"},
        content=body,
    )
    assert response.status_code == 422
    assert "surrogate" in response.json()["detail"]
