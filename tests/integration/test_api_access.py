"""Who may do what, for every route; both tables below are held against the application's own routes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from core.clock import utc_now
from core.ids import KeyId
from tenancy.keys import revoke_key
from tests.api_fixtures import ALL_SCOPES, House, make_answer, make_document, open_house

SCOPES = {
    "create_collection": {"ingest"},
    "list_collections": {"ask", "ingest"},
    "get_collection": {"ask", "ingest"},
    "delete_collection": {"ingest"},
    "upload_documents": {"ingest"},
    "list_documents": {"ask", "ingest"},
    "get_document": {"ask", "ingest"},
    "get_document_text": {"ask", "ingest"},
    "download_document": {"ask", "ingest"},
    "get_page": {"ask", "ingest"},
    "get_page_picture": {"ask", "ingest"},
    "change_document": {"ingest"},
    "delete_document": {"ingest"},
    "list_jobs": {"ask", "ingest"},
    "get_job": {"ask", "ingest"},
    "cancel_job": {"ask", "ingest"},
    "retry_job": {"ask", "ingest"},
    "follow_job": {"ask", "ingest"},
    "list_queues": set(),
    "pause_queue": set(),
    "resume_queue": set(),
    "ask_question": {"ask"},
    "create_quote": {"ask"},
    "list_answers": {"ask"},
    "get_answer": {"ask"},
    "follow_answer": {"ask"},
    "get_trace": {"ask"},
    "redact_trace": {"ask"},
    "read_attention": {"ask"},
    "create_conversation": {"ask"},
    "list_conversations": {"ask"},
    "get_conversation": {"ask"},
    "delete_conversation": {"ask"},
    "list_turns": {"ask"},
    "ask_in_conversation": {"ask"},
    "create_extraction": {"ask"},
    "list_extractions": {"ask"},
    "get_extraction": {"ask"},
    "list_extraction_rows": {"ask"},
    "download_extraction": {"ask"},
    "create_batch": {"ask"},
    "list_batches": {"ask"},
    "get_batch": {"ask"},
    "cancel_batch": {"ask"},
    "download_batch_output": {"ask"},
    "download_batch_errors": {"ask"},
    "create_summary": {"ask"},
    "create_summary_quote": {"ask"},
    "list_summaries": {"ask"},
    "get_summary": {"ask"},
    "list_summary_documents": {"ask"},
    "compare_summaries": {"ask"},
    "create_evaluation": {"ask"},
    "list_evaluations": {"ask"},
    "get_evaluation": {"ask"},
    "delete_evaluation": {"ask"},
    "list_evaluation_items": {"ask"},
    "get_evaluation_report": {"ask"},
    "compare_evaluations": {"ask"},
    "get_comparison_report": {"ask"},
    "create_schedule": {"ask", "ingest", "reports"},
    "list_schedules": {"ask", "ingest", "reports"},
    "preview_schedule": {"ask", "ingest", "reports"},
    "get_schedule": {"ask", "ingest", "reports"},
    "update_schedule": {"ask", "ingest", "reports"},
    "delete_schedule": {"ask", "ingest", "reports"},
    "run_schedule": {"ask", "ingest", "reports"},
    "list_schedule_runs": {"ask", "ingest", "reports"},
    "list_next_slots": {"ask", "ingest", "reports"},
    "get_usage": {"reports"},
    "get_cost_report": {"reports"},
    "get_top_costs": {"reports"},
    "get_savings": {"reports"},
    "get_invoice": {"reports"},
    "create_stored_report": {"reports"},
    "list_stored_reports": {"reports"},
    "get_stored_report": {"reports"},
    "get_prices": {"reports"},
    "announce_price": set(),
    "withdraw_price": set(),
    "list_ledger_entries": {"reports"},
    "correct_ledger_entry": set(),
    "get_reconciliation": set(),
    "create_webhook": set(),
    "list_webhooks": set(),
    "get_webhook": set(),
    "change_webhook": set(),
    "delete_webhook": set(),
    "rotate_webhook_secret": set(),
    "test_webhook": set(),
    "list_deliveries": set(),
    "get_delivery": set(),
    "redeliver": set(),
    "create_budget": set(),
    "list_budgets": {"reports"},
    "get_budget": {"reports"},
    "change_budget": set(),
    "delete_budget": set(),
    "create_key": set(),
    "list_keys": set(),
    "revoke_key": set(),
    "create_tenant": set(),
    "list_tenants": set(),
}
"""The scopes of which one is enough; `admin` always is."""

NAMING_NO_OBJECT = {
    "create_collection",
    "list_collections",
    "list_jobs",
    "list_queues",
    "create_quote",
    "list_answers",
    "create_conversation",
    "list_conversations",
    "create_extraction",
    "list_extractions",
    "list_batches",
    "create_summary",
    "create_summary_quote",
    "list_summaries",
    "create_evaluation",
    "list_evaluations",
    "create_schedule",
    "list_schedules",
    "preview_schedule",
    "get_usage",
    "get_cost_report",
    "get_top_costs",
    "get_savings",
    "get_invoice",
    "create_stored_report",
    "list_stored_reports",
    "get_prices",
    "announce_price",
    "list_ledger_entries",
    "correct_ledger_entry",
    "get_reconciliation",
    "create_webhook",
    "list_webhooks",
    "create_budget",
    "list_budgets",
    "create_key",
    "list_keys",
    "create_tenant",
    "list_tenants",
}

BODIES: dict[str, dict[str, Any]] = {
    "create_collection": {"name": "x"},
    "ask_question": {"question": "what?", "wait_seconds": 0},
    "ask_in_conversation": {"question": "what?", "wait_seconds": 0},
    "create_conversation": {"collection_id": "nothing_here"},
    "create_quote": {"collection_id": "nothing_here", "question": "what?"},
    "change_document": {"tags": ["x"]},
    "create_extraction": {
        "collection_id": "nothing_here",
        "schema": {"type": "object", "properties": {"x": {"type": "string"}}},
    },
    "create_summary": {"collection_id": "nothing_here"},
    "create_summary_quote": {"collection_id": "nothing_here"},
    "create_evaluation": {"collection_id": "nothing_here", "questions": [{"question": "what?"}]},
    "create_schedule": {"name": "x", "action": "nothing", "parameters": {}, "every_seconds": 3600},
    "preview_schedule": {"every_seconds": 3600},
    "update_schedule": {"paused": True},
    "create_webhook": {"url": "https://93.184.216.34/"},
    "change_webhook": {"description": "x"},
    "create_batch": {"question": "what?"},
    "create_budget": {"limit": 1, "unit": "tokens", "period": "day", "key_id": "nothing_here"},
    "change_budget": {"limit": 1},
    "create_key": {"name": "x", "scopes": ["ask"]},
    "create_tenant": {"name": "x"},
    "announce_price": {
        "model": "*",
        "stage": "decode",
        "price_per_million": "1",
        "effective_from": "2020-01-01T00:00:00Z",
    },
    "correct_ledger_entry": {"entry_id": "nothing_here", "reason": "x"},
    "pause_queue": {},
    "resume_queue": {},
}

OPERATORS = {
    "create_tenant",
    "announce_price",
    "withdraw_price",
    "correct_ledger_entry",
    "get_reconciliation",
    "list_queues",
    "pause_queue",
    "resume_queue",
}
"""For an administrator of the default tenant alone, who may name anybody's objects."""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("access")) as house:
        yield house


def routes(house: House) -> dict[str, tuple[str, str]]:
    """Method and path of every route under /v1, by its operation id."""
    return {
        operation["operationId"]: (verb.upper(), path)
        for path, item in house.app.openapi()["paths"].items()
        for verb, operation in item.items()
        if path.startswith("/v1")
    }


def call(house: House, name: str, headers: dict[str, str], **ids: str) -> int:
    method, path = routes(house)[name]
    path = re.sub(r"\{(\w+)\}", lambda named: ids.get(named[1], "1"), path)
    content = {"files": [("files", ("a.txt", b"x"))]} if name == "upload_documents" else {}
    response = house.client.request(method, path, headers=headers, json=BODIES.get(name), **content)
    if response.status_code >= 400:
        assert response.headers["content-type"] == "application/problem+json"
    return int(response.status_code)


def test_the_tables_name_every_route(house: House) -> None:
    assert set(SCOPES) == set(routes(house))
    assert {name for name, (_, path) in routes(house).items() if "{" not in path} == NAMING_NO_OBJECT


@pytest.mark.parametrize("name", SCOPES)
def test_without_a_key_every_route_answers_401(house: House, name: str) -> None:
    assert call(house, name, {}) == 401


@pytest.mark.parametrize("name", SCOPES)
def test_every_route_needs_its_scope(house: House, name: str) -> None:
    for scope in ALL_SCOPES:
        refused = call(house, name, house.key(scope, tenant=house.south)) == 403
        # Even an administrator of `south` may not do what is the operator's.
        allowed = scope in SCOPES[name] or (scope == "admin" and name not in OPERATORS)
        assert refused is not allowed, scope


def post(house: House, path: str, body: object) -> str:
    """The id of what north makes."""
    response = house.client.post(path, headers=house.key(), json=body)
    assert response.status_code in (201, 202), response.text
    return str(response.json()["id"])


@pytest.fixture(scope="module")
def norths(house: House) -> dict[str, str]:
    """One object of each kind, all of them north's."""
    answer = make_answer(house)
    collection_id = house.collection()
    evaluation_id = post(
        house, "/v1/evaluations", BODIES["create_evaluation"] | {"collection_id": collection_id}
    )
    document_id = make_document(house)
    webhook_id = post(house, "/v1/webhooks", BODIES["create_webhook"])
    read = house.client.get(f"/v1/documents/{document_id}", headers=house.key()).json()["collection_id"]
    return {
        "extraction_id": post(
            house, "/v1/extractions", BODIES["create_extraction"] | {"collection_id": read}
        ),
        "summary_id": post(house, "/v1/summaries", {"collection_id": read}),
        "report_id": post(house, "/v1/reports/costs/stored", {"interval": "last_month"}),
        "budget_id": post(
            house,
            "/v1/budgets",
            {"limit": 10**9, "unit": "tokens", "period": "day", "collection_id": house.collection("limited")},
        ),
        "collection_id": collection_id,
        "conversation_id": post(house, "/v1/conversations", {"collection_id": collection_id}),
        "evaluation_id": evaluation_id,
        "schedule_id": post(
            house,
            "/v1/schedules",
            {
                "name": "nightly",
                "action": "extraction",
                "parameters": BODIES["create_extraction"] | {"collection_id": read},
                "cron": "30 2 * * *",
            },
        ),
        "other_id": evaluation_id,
        "document_id": document_id,
        "webhook_id": webhook_id,
        "delivery_id": post(house, f"/v1/webhooks/{webhook_id}/test", None),
        "job_id": answer.job_id,
        "answer_id": answer.id,
        "key_id": house.client.get("/v1/keys", headers=house.key()).json()["items"][0]["id"],
    }


@pytest.mark.parametrize("name", sorted(set(SCOPES) - NAMING_NO_OBJECT - OPERATORS))
def test_another_tenants_object_does_not_exist(house: House, norths: dict[str, str], name: str) -> None:
    assert call(house, name, house.key(tenant=house.south), **norths) == 404


def test_nothing_that_was_tried_on_another_tenants_objects_had_an_effect(
    house: House, norths: dict[str, str]
) -> None:
    headers = house.key()
    assert house.client.get(f"/v1/collections/{norths['collection_id']}", headers=headers).is_success
    assert house.client.get(f"/v1/documents/{norths['document_id']}", headers=headers).is_success
    job = house.client.get(f"/v1/jobs/{norths['job_id']}", headers=headers).json()
    assert job["status"] == "queued"
    keys = house.client.get("/v1/keys", headers=headers).json()["items"]
    assert all(key["revoked_at"] is None for key in keys)


@pytest.mark.parametrize("path", ["/v1/collections", "/v1/jobs", "/v1/answers", "/v1/schedules"])
def test_lists_show_nothing_of_another_tenant(house: House, norths: dict[str, str], path: str) -> None:
    mine = house.client.get(path, headers=house.key()).text
    theirs = house.client.get(path, headers=house.key(tenant=house.south)).text
    assert any(identifier in mine for identifier in norths.values())
    assert not any(identifier in theirs for identifier in norths.values())


def test_an_answer_filter_by_another_tenants_collection_finds_no_collection(
    house: House, norths: dict[str, str]
) -> None:
    response = house.client.get(
        f"/v1/answers?collection_id={norths['collection_id']}", headers=house.key(tenant=house.south)
    )
    assert response.status_code == 404


def test_an_administrator_sees_only_their_own_tenant_and_the_operator_all(house: House) -> None:
    own = house.client.get("/v1/tenants", headers=house.key(tenant=house.south)).json()["items"]
    everyone = house.client.get("/v1/tenants", headers=house.key()).json()["items"]
    assert [tenant["id"] for tenant in own] == [house.south]
    assert {house.north, house.south} <= {tenant["id"] for tenant in everyone}


def test_a_wrong_key_is_refused_with_a_challenge(house: House) -> None:
    response = house.client.get("/v1/collections", headers={"Authorization": "Bearer ll_wrong"})
    assert response.status_code == 401
    assert response.json()["code"] == "not_authenticated"
    assert response.headers["www-authenticate"] == 'Bearer realm="longleaf", error="invalid_token"'


def test_a_missing_key_is_asked_for(house: House) -> None:
    response = house.client.get("/v1/collections")
    assert response.headers["www-authenticate"] == 'Bearer realm="longleaf"'
    assert "longleaf keys" in response.json()["remedy"]


@pytest.mark.parametrize("header", ["Basic dXNlcjpwYXNz", "ll_something", "Bearer", "Bearer 钥匙".encode()])
def test_other_kinds_of_authorization_are_refused(house: House, header: str | bytes) -> None:
    assert house.client.get("/v1/collections", headers={"Authorization": header}).status_code == 401


def test_an_expired_key_is_told_so(house: House) -> None:
    past = utc_now() - timedelta(days=2)
    token = house.issue("ask", now=past, expires_at=past + timedelta(days=1))
    response = house.client.get("/v1/collections", headers={"Authorization": f"Bearer {token}"})
    assert (response.status_code, response.json()["code"]) == (401, "key_expired")


def test_a_revoked_key_is_told_so(house: House) -> None:
    token = house.issue("ask")
    headers = {"Authorization": f"Bearer {token}"}
    assert house.client.get("/v1/collections", headers=headers).is_success
    newest = house.client.get("/v1/keys?limit=200", headers=house.key()).json()["items"][-1]
    with house.services.database.write() as session:
        revoke_key(session, house.north, KeyId(newest["id"]), now=utc_now())
    response = house.client.get("/v1/collections", headers=headers)
    assert (response.status_code, response.json()["code"]) == (401, "key_revoked")


def test_cancelling_takes_the_scope_that_starting_took(house: House) -> None:
    job_id = make_answer(house).job_id
    assert house.client.post(f"/v1/jobs/{job_id}/cancel", headers=house.key("ingest")).status_code == 403
    assert house.client.post(f"/v1/jobs/{job_id}/cancel", headers=house.key("ask")).is_success


def test_every_object_survives_in_a_house_of_its_own(tmp_path: Path) -> None:
    """Two installations share nothing: a key of one is unknown in the other."""
    with open_house(tmp_path / "a") as first, open_house(tmp_path / "b") as second:
        assert second.client.get("/v1/collections", headers=first.key()).status_code == 401
