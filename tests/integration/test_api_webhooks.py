"""Webhooks over HTTP: what is made, shown once, refused, tested and sent again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.ids import WebhookId
from storage.webhooks import WebhookRepository
from tests.api_fixtures import House, open_house

URL = "https://93.184.216.34/hook"  # an address: no name has to be looked up


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("webhooks")) as house:
        yield house


def send(
    house: House, method: str, path: str = "", headers: dict[str, str] | None = None, **body: Any
) -> Any:
    return house.client.request(
        method, f"/v1/webhooks{path}", headers=house.key() | (headers or {}), json=body or None
    )


def make(house: House, **body: Any) -> dict[str, Any]:
    response = send(house, "POST", url=URL, **body)
    assert response.status_code == 201, response.text
    made: dict[str, Any] = response.json()
    return made


def test_a_secret_is_shown_once_and_again_when_it_is_replaced(house: House) -> None:
    made = make(house, event_types=["job.finished"], description="财务 finance")
    assert made["secret"].startswith("whsec_")
    shown = send(house, "GET", f"/{made['id']}").json()
    assert shown == {name: value for name, value in made.items() if name != "secret"}
    assert shown["id"] in [each["id"] for each in send(house, "GET").json()["items"]]
    rotated = send(house, "POST", f"/{made['id']}/rotate").json()
    assert rotated["secret"].startswith("whsec_")
    assert rotated["secret"] != made["secret"]


def test_a_repeated_request_makes_one_webhook_and_does_not_tell_its_secret_again(house: House) -> None:
    headers = {"Idempotency-Key": "hook-1"}
    first, second = (send(house, "POST", headers=headers, url=URL).json() for _ in range(2))
    assert (second["id"], second["secret"]) == (first["id"], None)
    assert first["event_types"] == ["*"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"url": "http://127.0.0.1:9000/"}, "not a public address"),
        ({"url": "http://169.254.169.254/latest/meta-data"}, "not a public address"),
        ({"url": "http://localhost/"}, "not a public address"),
        ({"url": "https://me:hush@example.com/"}, "password"),
        ({"url": "gopher://example.com/"}, "http://"),
        ({"url": URL, "event_types": []}, "event_types"),
        ({"url": URL, "event_types": ["job.exploded"]}, "event_types"),
    ],
)
def test_what_leads_inside_or_nowhere_is_refused(house: House, body: dict[str, Any], words: str) -> None:
    response = send(house, "POST", **body)
    assert response.status_code == 422
    assert words in response.json()["detail"]
    assert "hush" not in response.text


def test_a_change_is_checked_too_and_enabling_forgives(house: House) -> None:
    made = make(house)
    assert send(house, "PATCH", f"/{made['id']}", url="http://10.0.0.1/").status_code == 422
    with house.services.database.write() as session:
        WebhookRepository(session, house.north).disable(WebhookId(made["id"]), "It answered 410.")
    assert send(house, "GET", f"/{made['id']}").json()["disabled_reason"] == "It answered 410."
    refused = send(house, "POST", f"/{made['id']}/test")
    assert (refused.status_code, "410" in refused.json()["detail"]) == (409, True)
    changed = send(house, "PATCH", f"/{made['id']}", enabled=True, event_types=["batch.finished"]).json()
    assert (changed["enabled"], changed["disabled_reason"]) == (True, None)
    assert (changed["event_types"], changed["url"]) == (["batch.finished"], URL)


def test_a_test_is_a_delivery_that_can_be_followed_and_sent_again(house: House) -> None:
    made = make(house)
    tested = send(house, "POST", f"/{made['id']}/test")
    assert tested.status_code == 202
    delivery = tested.json()
    assert (delivery["event_type"], delivery["status"], delivery["attempts"]) == (
        "webhook.test",
        "queued",
        [],
    )
    path = f"/{made['id']}/deliveries/{delivery['id']}"
    assert send(house, "GET", path).json() == delivery
    again = send(house, "POST", f"{path}/redeliver").json()
    assert again["id"] == delivery["id"]
    assert again["job_id"] != delivery["job_id"]
    assert [each["id"] for each in send(house, "GET", f"/{made['id']}/deliveries").json()["items"]] == [
        delivery["id"]
    ]
    other = make(house)
    assert send(house, "GET", f"/{other['id']}/deliveries/{delivery['id']}").status_code == 404


def test_a_deleted_webhook_is_gone(tmp_path: Path) -> None:
    with open_house(tmp_path) as house:
        made = make(house)
        send(house, "POST", f"/{made['id']}/test")
        assert send(house, "DELETE", f"/{made['id']}").status_code == 204
        assert send(house, "GET", f"/{made['id']}").status_code == 404
        assert send(house, "GET").json()["items"] == []
