"""Collections, documents, jobs, keys, tenants: what they show and what they refuse."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.errors import EngineIncapable, LongleafError
from tests.api_fixtures import House, cite, make_answer, make_document, make_upload_row, open_house


@pytest.fixture
def house(tmp_path: Path, new_database_url: Callable[[], str]) -> Iterator[House]:
    with open_house(tmp_path, database_url=new_database_url()) as house:
        yield house


def test_a_collection_is_made_shown_listed_and_deleted(house: House) -> None:
    made = house.client.post("/v1/collections", headers=house.key(), json={"name": "  2025 年报　集 "})
    assert made.status_code == 201
    collection = made.json()
    assert collection["name"] == "2025 年报　集"
    assert collection["num_documents"] == 0
    path = made.headers["location"]
    assert house.client.get(path, headers=house.key()).json() == collection
    assert house.client.get("/v1/collections", headers=house.key()).json() == {
        "items": [collection],
        "next_cursor": None,
    }
    assert house.client.delete(path, headers=house.key()).status_code == 204
    assert house.client.get(path, headers=house.key()).status_code == 404
    assert house.client.delete(path, headers=house.key()).status_code == 404


def test_a_taken_name_conflicts(house: House) -> None:
    house.collection("reports")
    response = house.client.post("/v1/collections", headers=house.key(), json={"name": "reports"})
    assert (response.status_code, response.json()["code"]) == (409, "conflict")
    assert "reports" in response.json()["detail"]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "body.name: it is missing"),
        ({"name": ""}, "body.name"),
        ({"name": "   "}, "body.name: it must not be blank"),
        ({"name": "a\x00b"}, "body.name: it must not hold control characters"),
        ({"name": "x" * 201}, "body.name"),
        ({"name": 5}, "body.name"),
        ({"name": "x", "colour": "red"}, "body.colour: there is no such field"),
        ([], "body"),
    ],
)
def test_a_bad_collection_is_told_what_is_wrong(house: House, body: object, named: str) -> None:
    response = house.client.post("/v1/collections", headers=house.key(), json=body)
    assert (response.status_code, response.json()["code"]) == (422, "invalid_input")
    assert named in response.json()["detail"]
    assert response.json()["errors"]


def test_a_body_that_is_no_json_is_told_where(house: House) -> None:
    headers = house.key() | {"Content-Type": "application/json"}
    response = house.client.post("/v1/collections", headers=headers, content=b'{"name": oops}')
    assert response.status_code == 422
    assert "not JSON (at character 9)" in response.json()["detail"]


def test_a_body_of_no_declared_type_is_told_which_to_declare(house: House) -> None:
    response = house.client.post("/v1/collections", headers=house.key(), content=b'{"name": "x"}')
    assert response.status_code == 422
    assert "Content-Type: application/json" in response.json()["detail"]


def test_a_body_that_is_no_utf_8_is_a_problem(house: House) -> None:
    content = '{"name": "年报"}'.encode("gbk")
    response = house.client.post(
        "/v1/collections", headers=house.key() | {"Content-Type": "application/json"}, content=content
    )
    assert (response.status_code, response.json()["code"]) == (422, "invalid_input")


def test_lists_page_by_cursor(house: House) -> None:
    for i in range(5):
        house.collection(f"c{i}")
    names: list[str] = []
    cursor = ""
    while cursor is not None:
        page = house.client.get(f"/v1/collections?limit=2{cursor}", headers=house.key()).json()
        names += [item["name"] for item in page["items"]]
        cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
    assert names == [f"c{i}" for i in range(5)]


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=201", "limit=x", "cursor=nonsense", "cursor=" + "a" * 301]
)
def test_a_bad_page_is_refused(house: House, query: str) -> None:
    response = house.client.get(f"/v1/collections?{query}", headers=house.key())
    assert (response.status_code, response.json()["code"]) == (422, "invalid_input")


def test_a_cursor_with_what_no_database_stores_is_refused_or_finds_nothing(house: House) -> None:
    cursor = urlsafe_b64encode(b"2026-11-30T00:00:00+00:00|col_\x00").decode()
    response = house.client.get(f"/v1/collections?cursor={cursor}", headers=house.key())
    assert response.status_code in (200, 422)


def test_a_document_is_shown_with_every_name_and_its_text(house: House) -> None:
    document_id = make_document(house, text="四十二。Forty-two.")
    make_upload_row(house, document_id, "指南.txt")
    make_upload_row(house, document_id, "guide copy.txt")
    document = house.client.get(f"/v1/documents/{document_id}", headers=house.key()).json()
    assert document["names"] == ["指南.txt", "guide copy.txt"]
    assert document["status"] == "ready"
    assert document["error"] is None
    text = house.client.get(f"/v1/documents/{document_id}/text?start=1&end=3", headers=house.key()).json()
    assert text == {
        "document_id": document_id,
        "start": 1,
        "end": 3,
        "num_characters": 14,
        "text": "十二",
    }
    whole = house.client.get(f"/v1/documents/{document_id}/text", headers=house.key()).json()
    assert whole["text"] == "四十二。Forty-two."


def test_a_stretch_is_kept_within_the_text(house: House) -> None:
    document_id = make_document(house)
    path = f"/v1/documents/{document_id}/text"
    assert house.client.get(f"{path}?start=99", headers=house.key()).json()["text"] == ""
    assert house.client.get(f"{path}?start=10&end=999", headers=house.key()).json()["text"] == "two."
    assert house.client.get(f"{path}?start=5&end=2", headers=house.key()).status_code == 422
    assert house.client.get(f"{path}?start=-1", headers=house.key()).status_code == 422
    assert house.client.get(f"{path}?start={10**30}", headers=house.key()).status_code == 422


def test_a_file_is_given_back_as_it_came_and_never_as_a_page_of_ours(house: House) -> None:
    document_id = make_document(house, text="<script>alert(1)</script>")
    response = house.client.get(f"/v1/documents/{document_id}/file", headers=house.key())
    assert response.content == b"<script>alert(1)</script>"
    assert response.headers["content-disposition"].startswith("attachment; filename*=utf-8''%E6%8C%87")
    assert response.headers["x-content-type-options"] == "nosniff"
    part = house.client.get(f"/v1/documents/{document_id}/file", headers=house.key() | {"Range": "bytes=0-6"})
    assert (part.status_code, part.content) == (206, b"<script")


def test_documents_are_listed_by_status_and_by_any_name(house: House) -> None:
    document_id = make_document(house)
    make_upload_row(house, document_id, "副本.txt")
    path = f"/v1/collections/{house.collection()}/documents"

    def found(query: str) -> list[str]:
        items = house.client.get(f"{path}?{query}", headers=house.key()).json()["items"]
        return [item["id"] for item in items]

    assert found("") == found("status=ready") == found("name=副本.txt") == [document_id]
    assert found("status=failed") == found("name=other.txt") == []
    assert house.client.get(f"{path}?status=eaten", headers=house.key()).status_code == 422
    assert house.client.get("/v1/collections/col_no/documents", headers=house.key()).status_code == 404


def test_tags_are_replaced_shown_and_found(house: House) -> None:
    document_id = make_document(house)
    path, listing = f"/v1/documents/{document_id}", f"/v1/collections/{house.collection()}/documents"
    assert house.client.get(path, headers=house.key()).json()["tags"] == []
    changed = house.client.patch(path, headers=house.key(), json={"tags": ["合同", "Lease ", "lease"]})
    assert (changed.status_code, changed.json()["tags"]) == (200, ["lease", "合同"])
    assert changed.json() == house.client.get(path, headers=house.key()).json()

    def found(query: str) -> list[str]:
        items = house.client.get(f"{listing}?{query}", headers=house.key()).json()["items"]
        return [item["id"] for item in items]

    assert found("tag=合同") == found("tag=LEASE") == found("tag=other&tag=lease") == [document_id]
    assert found("tag=other") == []
    house.client.patch(path, headers=house.key(), json={"tags": []})
    assert found("tag=合同") == []


def test_a_document_is_marked_static_beside_its_tags(house: House) -> None:
    path = f"/v1/documents/{make_document(house)}"

    def change(**body: object) -> tuple[bool, list[str]]:
        changed = house.client.patch(path, headers=house.key(), json=body).json()
        assert changed == house.client.get(path, headers=house.key()).json()
        return changed["static"], changed["tags"]

    assert change(tags=["合同"]) == (False, ["合同"])
    assert change(static=True) == (True, ["合同"])
    assert change(tags=[]) == (True, [])
    assert change(static=False, tags=["x"]) == (False, ["x"])


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"static": None},
        {"static": "yes"},
        {"static": 1},
        {"static": True, "tags": None},
        {"tags": None},
        {"tags": "合同"},
        {"tags": [""]},
        {"tags": ["a,b"]},
        {"tags": ["字" * 65]},
        {"tags": [f"{i}" for i in range(33)]},
        {"tags": ["fine"], "name": "no"},
    ],
)
def test_bad_changes_are_refused_and_change_nothing(house: House, body: object) -> None:
    document_id = make_document(house)
    path = f"/v1/documents/{document_id}"
    house.client.patch(path, headers=house.key(), json={"tags": ["keep"]})
    assert house.client.patch(path, headers=house.key(), json=body).status_code == 422
    surrogate = house.client.patch(
        path, headers=house.key() | {"Content-Type": "application/json"}, content=b'{"tags": ["\\ud800"]}'
    )
    assert surrogate.status_code == 422
    document = house.client.get(path, headers=house.key()).json()
    assert (document["tags"], document["static"]) == (["keep"], False)


def test_a_listing_by_what_can_be_no_tag_is_refused(house: House) -> None:
    path = f"/v1/collections/{house.collection()}/documents"
    assert house.client.get(f"{path}?tag=", headers=house.key()).status_code == 422
    assert house.client.get(f"{path}?tag=a,b", headers=house.key()).status_code == 422


def test_a_deleted_document_is_gone_and_its_citations_are_withdrawn(house: House) -> None:
    document_id = make_document(house)
    answer = make_answer(house)
    house.worker.answer(house.north, answer.job_id, citations=[cite(document_id)])
    path = f"/v1/answers/{answer.id}"
    assert house.client.get(path, headers=house.key()).json()["citations"][0]["withdrawn"] is False
    assert house.client.delete(f"/v1/documents/{document_id}", headers=house.key()).status_code == 204
    assert house.client.get(f"/v1/documents/{document_id}", headers=house.key()).status_code == 404
    assert house.client.get(f"/v1/documents/{document_id}/file", headers=house.key()).status_code == 404
    citation = house.client.get(path, headers=house.key()).json()["citations"][0]
    assert citation["withdrawn"] is True
    assert citation["quote"] == "四十二"


def test_jobs_are_listed_newest_first_and_by_kind_and_status(house: House) -> None:
    upload = house.upload(("a.txt", b"text"))
    answer = make_answer(house)

    def listed(query: str = "") -> list[str]:
        items = house.client.get(f"/v1/jobs?{query}", headers=house.key()).json()["items"]
        return [item["id"] for item in items]

    assert listed() == listed("status=queued") == [answer.job_id, upload["job"]["id"]]
    assert listed("kind=ingest") == [upload["job"]["id"]]
    assert listed("status=failed") == []
    assert house.client.get("/v1/jobs?status=lost", headers=house.key()).status_code == 422


def test_a_job_of_an_answer_says_which(house: House) -> None:
    answer = make_answer(house)
    job = house.client.get(f"/v1/jobs/{answer.job_id}", headers=house.key()).json()
    assert (job["kind"], job["queue"], job["answer_id"]) == ("answer", "interactive", answer.id)


def test_a_queued_upload_that_is_cancelled_closes_its_files(house: House) -> None:
    upload = house.upload(("a.txt", b"text"), ("empty.txt", b""))
    path = f"/v1/jobs/{upload['job']['id']}"
    cancelled = house.client.post(f"{path}/cancel", headers=house.key()).json()
    assert cancelled["status"] == "cancelled"
    assert [file["error"]["code"] for file in cancelled["files"]] == ["job_cancelled", "empty_document"]
    assert house.client.post(f"{path}/cancel", headers=house.key()).json()["status"] == "cancelled"


def test_a_finished_job_cannot_be_cancelled(house: House) -> None:
    answer = make_answer(house)
    house.worker.answer(house.north, answer.job_id)
    response = house.client.post(f"/v1/jobs/{answer.job_id}/cancel", headers=house.key())
    assert response.status_code == 409
    assert answer.job_id in response.json()["detail"]


def test_a_key_is_shown_once_works_and_can_be_revoked(house: House) -> None:
    body = {"name": "报表 app", "scopes": ["ask", "reports"], "expires_in_days": 30}
    issued = house.client.post("/v1/keys", headers=house.key(), json=body).json()
    headers = {"Authorization": f"Bearer {issued['key']}"}
    assert issued["key"].startswith(f"ll_{issued['prefix']}_")
    assert issued["expires_at"] is not None
    assert house.client.get("/v1/usage", headers=headers).is_success
    assert issued["key"] not in house.client.get("/v1/keys", headers=house.key()).text
    path = f"/v1/keys/{issued['id']}"
    assert house.client.delete(path, headers=house.key()).status_code == 204
    assert house.client.delete(path, headers=house.key()).status_code == 204
    assert house.client.get("/v1/usage", headers=headers).json()["code"] == "key_revoked"


@pytest.mark.parametrize(
    "body",
    [
        {"name": "x", "scopes": []},
        {"name": "x", "scopes": ["root"]},
        {"name": "x", "scopes": ["ask"], "expires_in_days": 0},
        {"name": "x", "scopes": ["ask"], "tenant_id": "ten_1"},
    ],
)
def test_a_bad_key_is_refused(house: House, body: dict[str, object]) -> None:
    assert house.client.post("/v1/keys", headers=house.key(), json=body).status_code == 422


def test_a_new_tenant_comes_with_a_key_that_sees_nothing_of_others(house: House) -> None:
    house.collection()
    created = house.client.post("/v1/tenants", headers=house.key(), json={"name": "新租户"})
    assert created.status_code == 201
    headers = {"Authorization": f"Bearer {created.json()['admin_key']['key']}"}
    assert house.client.get("/v1/collections", headers=headers).json()["items"] == []
    again = house.client.post("/v1/tenants", headers=house.key(), json={"name": "新租户"})
    assert again.status_code == 409


def test_the_same_idempotency_key_makes_a_collection_once(house: House) -> None:
    headers = house.key() | {"Idempotency-Key": "make-1"}
    first = house.client.post("/v1/collections", headers=headers, json={"name": "reports"})
    again = house.client.post("/v1/collections", headers=headers, json={"name": "reports"})
    other = house.client.post("/v1/collections", headers=headers, json={"name": "contracts"})
    assert again.status_code == 201
    assert again.json() == first.json()
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_mismatch")


def test_a_repeated_key_request_does_not_show_the_secret_again(house: House) -> None:
    headers = house.key() | {"Idempotency-Key": "issue-1"}
    body = {"name": "app", "scopes": ["ask"]}
    first = house.client.post("/v1/keys", headers=headers, json=body).json()
    again = house.client.post("/v1/keys", headers=headers, json=body).json()
    assert again == first | {"key": None}


def test_idempotency_keys_of_two_tenants_are_apart(house: House) -> None:
    for tenant in (house.north, house.south):
        headers = house.key(tenant=tenant) | {"Idempotency-Key": "same"}
        assert house.client.post("/v1/collections", headers=headers, json={"name": tenant}).is_success


@pytest.mark.parametrize("key", ["", "x" * 256, "two words", "键".encode()])
def test_an_unusable_idempotency_key_is_refused(house: House, key: str | bytes) -> None:
    headers = house.key() | {"Idempotency-Key": key}
    response = house.client.post("/v1/collections", headers=headers, json={"name": "x"})
    assert response.status_code == 422
    assert "Idempotency-Key" in response.json()["detail"]


def test_jobs_whose_workers_crashed_each_time_are_parked(house: House) -> None:
    collection_id = house.collection()

    def asked() -> str:
        path = f"/v1/collections/{collection_id}/questions"
        body = {"question": "为什么？ Why?", "wait_seconds": 0}
        return str(house.client.post(path, headers=house.key(), json=body).json()["job_id"])

    crashed, refused = asked(), asked()
    for job_id, error in ((crashed, LongleafError("It crashed.")), (refused, EngineIncapable("No."))):
        house.worker.claim(job_id)
        house.worker.fail(job_id, error)
    items = house.client.get("/v1/jobs?parked=true", headers=house.key()).json()["items"]
    assert [item["id"] for item in items] == [crashed]
