"""Budgets over the API: who may set them, and what callers are told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from accounting.ledger import Ledger, LedgerLine
from accounting.price_book import load_price_book
from accounting.price_sync import sync_price_book
from accounting.stages import Stage
from core.clock import utc_now
from core.ids import TenantId
from tests.api_fixtures import House, make_document, open_house


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with open_house(tmp_path) as house:
        with house.services.database.write() as session:
            sync_price_book(session, load_price_book(), now=utc_now())
        yield house


def send(house: House, method: str, path: str, *, tenant: TenantId | None = None, **body: Any) -> Any:
    return house.client.request(method, path, headers=house.key(tenant=tenant), json=body or None)


def make(house: House, *, tenant: TenantId | None = None, **body: Any) -> dict[str, Any]:
    response = send(
        house, "POST", "/v1/budgets", tenant=tenant, **({"unit": "tokens", "period": "day"} | body)
    )
    assert response.status_code == 201, response.text
    made: dict[str, Any] = response.json()
    assert response.headers["location"] == f"/v1/budgets/{made['id']}"
    return made


def ask(house: House) -> Any:
    path = f"/v1/collections/{house.collection()}/questions"
    return send(house, "POST", path, question="答案是什么？ What is the answer?", wait_seconds=0)


def spend(house: House, tokens: int, job_id: str | None = None) -> None:
    line = LedgerLine(
        source=f"work {tokens} {job_id}",
        attempt=1,
        stage=Stage.DECODE,
        model="m",
        model_revision="r",
        num_tokens=tokens,
        job_id=job_id,
        collection_id=house.collection(),
    )
    with house.services.database.write() as session:
        Ledger().record(session, house.north, [line])


def test_a_question_holds_until_its_job_has_ended(house: House) -> None:
    budget = make(house, limit=1000, collection_id=house.collection())
    job_id = ask(house).json()["job_id"]
    held = send(house, "GET", f"/v1/budgets/{budget['id']}").json()
    assert int(held["held"]) > 0
    assert int(held["left"]) == 1000 - int(held["held"])
    spend(house, 3, job_id)
    house.worker.answer(house.north, job_id)
    after = send(house, "GET", f"/v1/budgets/{budget['id']}").json()
    assert (after["used"], after["held"], after["left"]) == ("3", "0", "997")


def test_a_cancelled_question_holds_nothing(house: House) -> None:
    budget = make(house, limit=1000)
    assert send(house, "POST", f"/v1/jobs/{ask(house).json()['job_id']}/cancel").is_success
    assert send(house, "GET", f"/v1/budgets/{budget['id']}").json()["held"] == "0"


def test_a_question_that_is_tried_again_holds_again_and_is_refused_where_too_little_is_left(
    house: House,
) -> None:
    budget = make(house, limit=1000)
    job_id = ask(house).json()["job_id"]
    held = send(house, "GET", f"/v1/budgets/{budget['id']}").json()["held"]
    assert send(house, "POST", f"/v1/jobs/{job_id}/cancel").is_success
    assert send(house, "POST", f"/v1/jobs/{job_id}/retry").is_success
    assert send(house, "GET", f"/v1/budgets/{budget['id']}").json()["held"] == held
    assert send(house, "POST", f"/v1/jobs/{job_id}/cancel").is_success
    spend(house, 999)
    refused = send(house, "POST", f"/v1/jobs/{job_id}/retry")
    assert (refused.status_code, refused.json()["code"]) == (429, "budget_exceeded")
    assert send(house, "GET", f"/v1/jobs/{job_id}").json()["status"] == "cancelled"


def test_a_used_up_budget_is_a_429_that_says_how_much_and_until_when(house: House) -> None:
    budget = make(house, limit=100)
    spend(house, 100)
    refused = ask(house)
    problem = refused.json()
    assert (refused.status_code, problem["code"]) == (429, "budget_exceeded")
    assert (problem["limit"], problem["used"], problem["held"]) == ("100", "100", "0")
    assert (problem["budget_id"], problem["reset_at"]) == (
        budget["id"],
        budget["reset_at"].replace("Z", "+00:00"),
    )
    assert 1 <= int(refused.headers["retry-after"]) <= 86_400
    upload = house.client.post(
        f"/v1/collections/{house.collection()}/documents",
        headers=house.key(),
        files=[("files", ("a.txt", b"words"))],
    )
    assert upload.status_code == 429
    assert send(house, "GET", "/v1/jobs").json()["items"] == []


def test_near_its_limit_a_budget_warns_in_a_header(house: House) -> None:
    budget = make(house, limit=1000, warn_at=[50])
    assert "longleaf-budget-warning" not in ask(house).headers
    spend(house, 600)
    warned = ask(house)
    assert warned.status_code == 202
    assert warned.headers["longleaf-budget-warning"].startswith(
        f'"{budget["id"]}";state=warning;used="600";limit="1000";unit="tokens";reset="'
    )
    upload = house.client.post(
        f"/v1/collections/{house.collection()}/documents",
        headers=house.key(),
        files=[("files", ("a.txt", b"words"))],
    )
    assert (upload.status_code, "longleaf-budget-warning" in upload.headers) == (202, True)


def test_whatever_begins_work_warns(house: House) -> None:
    document_id = make_document(house)
    collection_id = house.client.get(f"/v1/documents/{document_id}", headers=house.key()).json()[
        "collection_id"
    ]
    make(house, limit=1000, warn_at=[50])
    spend(house, 600)
    summary = send(house, "POST", "/v1/summaries", collection_id=collection_id)
    batch = house.client.post(
        f"/v1/collections/{collection_id}/batches",
        headers=house.key(),
        files=[("file", ("questions.jsonl", '{"question": "有几座桥？"}'.encode()))],
    )
    extraction = send(
        house,
        "POST",
        "/v1/extractions",
        collection_id=collection_id,
        schema={"type": "object", "properties": {"name": {"type": "string"}}},
    )
    for begun in (summary, batch, extraction):
        assert begun.status_code == 202, begun.text
        assert "state=warning" in begun.headers["longleaf-budget-warning"], begun.url


def test_lowered_below_what_is_used_it_is_taken_and_says_so(house: House) -> None:
    budget = make(house, limit="1000")
    spend(house, 600)
    lowered = send(house, "PATCH", f"/v1/budgets/{budget['id']}", limit=500, warn_at=[10])
    assert lowered.is_success
    assert (lowered.json()["state"], lowered.json()["left"]) == ("exhausted", "0")
    assert "state=exhausted" in lowered.headers["longleaf-budget-warning"]
    assert ask(house).status_code == 429
    assert send(house, "DELETE", f"/v1/budgets/{budget['id']}").status_code == 204
    assert ask(house).status_code == 202


def test_whole_tenants_are_the_operator_s_to_limit(house: House) -> None:
    south = house.south
    limited = make(house, limit="2.5", unit="money", tenant_id=south)
    assert (limited["tenant_id"], limited["limit"], limited["currency"]) == (south, "2.5", "USD")
    path = f"/v1/budgets/{limited['id']}"
    assert send(house, "GET", path, tenant=south).json() == limited
    assert send(house, "PATCH", path, tenant=south, limit=100).status_code == 403
    assert send(house, "DELETE", path, tenant=south).status_code == 403
    assert send(house, "PATCH", path, limit="1").json()["limit"] == "1"
    for body in ({}, {"tenant_id": house.north}):
        wanted: dict[str, Any] = {"limit": 1, "unit": "tokens", "period": "day"} | body
        refused = send(house, "POST", "/v1/budgets", tenant=south, **wanted)
        assert (refused.status_code, "limit a key or a collection" in refused.text) == (403, True)
    own = make(house, tenant=south, limit=5, collection_id=house.collection(tenant=south))
    assert send(house, "PATCH", f"/v1/budgets/{own['id']}", tenant=south, limit=6).is_success
    mine = send(house, "GET", "/v1/budgets", tenant=south).json()["items"]
    assert [each["id"] for each in mine] == [limited["id"], own["id"]]
    assert send(house, "GET", "/v1/budgets").json()["items"] == []
    assert len(send(house, "GET", "/v1/budgets?all_tenants=true").json()["items"]) == 2
    assert send(house, "GET", "/v1/budgets?all_tenants=true", tenant=south).status_code == 403


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit": -1},
        {"limit": "a lot"},
        {"period": "week"},
        {"unit": "apples"},
        {"time_zone": "Mars/Olympus"},
        {"warn_at": [0]},
        {"limits": 1},
        {"key_id": "key_1", "collection_id": "col_1"},
    ],
)
def test_a_budget_that_is_none_is_refused(house: House, wrong: dict[str, Any]) -> None:
    body: dict[str, Any] = {"limit": 10, "unit": "tokens", "period": "day"}
    assert send(house, "POST", "/v1/budgets", **(body | wrong)).status_code == 422


def test_a_budget_of_a_key_that_there_is_not_is_refused(house: House) -> None:
    body: dict[str, Any] = {"limit": 1, "unit": "tokens", "period": "day", "key_id": "key_x"}
    assert send(house, "POST", "/v1/budgets", **body).status_code == 404
