from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from accounting.ledger import Ledger, LedgerLine
from accounting.price_book import load_price_book
from accounting.price_sync import sync_price_book
from accounting.stages import Stage
from core.clock import utc_now
from core.ids import TenantId
from tests.api_fixtures import House, open_house


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("ledger")) as house:
        with house.services.database.write() as session:
            sync_price_book(session, load_price_book(), now=utc_now())
        yield house


def spend(house: House, source: str, *, tenant: TenantId | None = None, engine_seconds: float = 0.0) -> str:
    """An entry of 1,000 decoded tokens, by default South's."""
    line = LedgerLine(
        source=source,
        attempt=1,
        stage=Stage.DECODE,
        model="m",
        model_revision="r",
        num_tokens=1000,
        engine_seconds=engine_seconds,
    )
    with house.services.database.write() as session:
        (entry,) = Ledger().record(session, tenant or house.south, [line])
    return entry.id


def call(house: House, method: str, path: str, **given: Any) -> Any:
    headers = given.pop("headers", {}) | house.key(tenant=given.pop("tenant", house.north))
    return house.client.request(method, path, headers=headers, **given)


def test_the_operator_corrects_once_and_the_tenant_sees_both_entries(house: House) -> None:
    entry_id = spend(house, "ans_corrected")
    body = {"entry_id": entry_id, "reason": "重复计数 counted twice", "num_tokens": -400}
    twice = [
        call(house, "POST", "/v1/ledger/corrections", json=body, headers={"Idempotency-Key": "k"})
        for _ in range(2)
    ]
    assert [response.status_code for response in twice] == [201, 201]
    assert twice[0].json() == twice[1].json()
    seen = call(house, "GET", "/v1/ledger", tenant=house.south).json()["items"]
    assert [(each["corrects_id"], each["num_tokens"], each["cost"]) for each in seen] == [
        (entry_id, -400, "-0.00032"),
        (None, 1000, "0.0008"),
    ]
    assert call(house, "GET", "/v1/ledger").json()["items"] == []
    too_much = call(house, "POST", "/v1/ledger/corrections", json=body | {"num_tokens": -601})
    assert (too_much.status_code, too_much.json()["tokens_left"]) == (409, 600)


def test_entries_are_found_by_their_source(house: House) -> None:
    entry_id = spend(house, "ans_found")
    found = call(house, "GET", "/v1/ledger?source=ans_found", tenant=house.south).json()["items"]
    assert [entry["id"] for entry in found] == [entry_id]
    assert call(house, "GET", "/v1/ledger?job_id=none", tenant=house.south).json()["items"] == []


def test_a_price_is_announced_seen_by_whom_it_concerns_and_withdrawn(house: House) -> None:
    later = utc_now() + timedelta(days=30)
    body = {
        "model": "m",
        "stage": "decode",
        "price_per_million": "0.5",
        "effective_from": later.isoformat(),
        "tenant_id": house.south,
    }
    made = call(house, "POST", "/v1/prices", json=body)
    assert (made.status_code, made.json()["is_announced"]) == (201, True)

    def own(tenant: str) -> list[str]:
        path = "/v1/prices"
        query = {"at": (later + timedelta(days=1)).isoformat()}
        items = call(house, "GET", path, params=query, tenant=tenant).json()["items"]
        return [item["price_per_million"] for item in items if item["is_own"]]

    assert (own(house.south), own(house.north)) == (["0.5"], [])
    assert call(house, "POST", "/v1/prices", json=body).status_code == 409
    past = call(house, "POST", "/v1/prices", json=body | {"effective_from": "2026-01-01T00:00:00Z"})
    assert (past.status_code, "has passed" in past.json()["detail"]) == (422, True)
    assert call(house, "DELETE", f"/v1/prices/{made.json()['id']}").status_code == 204
    assert own(house.south) == []


def test_what_a_machine_costs_is_shown_to_the_operator_only(house: House) -> None:
    def stages(tenant: str) -> set[str]:
        items = call(house, "GET", "/v1/prices", tenant=tenant).json()["items"]
        return {item["stage"] for item in items}

    assert stages(house.north) - stages(house.south) == {"engine_hour"}


def test_the_reconciliation_says_what_cannot_be_compared(house: House) -> None:
    spend(house, "ans_uncompared")
    found = call(house, "GET", "/v1/reports/reconciliation").json()
    (model,) = found["models"]
    assert (model["model"], model["counters"], found["is_alarming"]) == ("m", {}, False)
    reversed_ = {"start": "2026-02-01T00:00:00Z", "end": "2026-01-01T00:00:00Z"}
    assert call(house, "GET", "/v1/reports/reconciliation", params=reversed_).status_code == 422


def test_costs_of_all_tenants_and_what_the_machine_cost_are_the_operator_s(house: House) -> None:
    for tenant in (house.north, house.south):
        spend(house, f"timed in {tenant}", tenant=tenant, engine_seconds=9.0)
    path = "/v1/reports/costs?group_by=tenant"
    everybody = call(house, "GET", f"{path}&all_tenants=true").json()
    assert {row["tenant"] for row in everybody["rows"]} == {house.north, house.south}
    own = call(house, "GET", path).json()
    assert ([row["tenant"] for row in own["rows"]], own["total"]["engine_cost"]) == ([house.north], "0.001")
    tenants = call(house, "GET", path, tenant=house.south).json()
    assert (tenants["total"]["engine_cost"], tenants["total"]["margin"]) == (None, None)
    refused = call(house, "GET", f"{path}&all_tenants=true", tenant=house.south)
    assert (refused.status_code, refused.json()["code"]) == (403, "not_permitted")
    page = call(house, "GET", f"{path}&all_tenants=true&format=html")
    assert (page.status_code, "one tenant" in page.json()["detail"]) == (422, True)
