"""Cost reports that are made by a job and kept: at once, by a schedule, and who hears of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from accounting.ledger import Ledger, LedgerLine
from accounting.price_book import load_price_book
from accounting.price_sync import sync_price_book
from accounting.report_intervals import named_interval
from accounting.stages import Stage
from accounting.stored_reports import StoredReportPipeline
from core.clock import utc_now
from core.ids import JobId
from storage.job_run import JobRun
from storage.jobs import JobQueue
from storage.models import WebhookDelivery
from tests.api_fixtures import LEASE, OWNER, House, open_house

STORED = "/v1/reports/costs/stored"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("reports")) as house:
        with house.services.database.write() as session:
            last_month = named_interval("last_month", "UTC", now=utc_now())
            assert last_month.start is not None
            sync_price_book(session, load_price_book(), now=last_month.start)
            line = LedgerLine(
                source="s", attempt=1, stage=Stage.DECODE, model="m", model_revision="r", num_tokens=1_000
            )
            Ledger().record(session, house.north, [line], at=last_month.start + timedelta(days=3))
        yield house


def get(house: House, path: str) -> Any:
    return house.client.get(path, headers=house.key("reports"))


def work(house: House, job_id: str) -> None:
    with house.services.database.write() as session:
        job = JobQueue(session).claim_job(JobId(job_id), OWNER, lease=LEASE)
    assert job is not None
    assert StoredReportPipeline(house.services.database).run(JobRun(job, OWNER, lambda: None)) == "done"


def test_a_report_is_kept_as_it_was_made_and_webhooks_hear_of_it(house: House) -> None:
    webhook = {"url": "https://example.com/x", "event_types": ["report.ready"]}
    assert house.client.post("/v1/webhooks", headers=house.key(), json=webhook).status_code == 201
    body = {"interval": "last_month", "group_by": ["stage"], "language": "zh"}
    response = house.client.post(STORED, headers=house.key("reports"), json=body)
    assert response.status_code == 202, response.text
    made = response.json()
    path = response.headers["location"]
    assert (made["status"], made["parameters"]["group_by"]) == ("queued", ["stage"])
    assert get(house, path).json()["content"] is None
    waiting = get(house, f"{path}?format=csv")
    assert (waiting.status_code, "its job is queued" in waiting.json()["detail"]) == (409, True)

    work(house, made["job_id"])
    found = get(house, path).json()
    assert (found["status"], found["error"]) == ("succeeded", None)
    (row,) = found["content"]["costs"]["rows"]
    assert (row["stage"], row["num_tokens"]) == ("decode", 1_000)
    assert found["content"]["costs"]["total"]["cost"] == row["cost"] != "0"
    assert get(house, f"{path}?format=csv").text.splitlines()[1].startswith(f"decode,1000,{row['cost']},")
    assert "费用" in get(house, f"{path}?format=html").text
    [listed, *_] = get(house, STORED).json()["items"]
    assert (listed["id"], "content" in listed) == (made["id"], False)
    with house.services.database.read() as session:
        (delivery,) = session.scalars(
            select(WebhookDelivery).where(WebhookDelivery.event_type == "report.ready")
        )
    assert delivery.payload["links"]["report"] == path
    assert delivery.payload["report_id"] == made["id"]


def test_a_schedule_has_reports_made(house: House) -> None:
    schedule = {
        "name": "每月 monthly",
        "action": "cost_report",
        "parameters": {"interval": "last_month", "group_by": ["model"], "time_zone": "Asia/Shanghai"},
        "cron": "0 6 1 * *",
    }
    headers = house.key("reports")
    made = house.client.post("/v1/schedules", headers=headers, json=schedule)
    assert made.status_code == 201, made.text
    run = house.client.post(f"/v1/schedules/{made.json()['id']}/run", headers=headers).json()
    work(house, run["job_id"])
    [report, *_] = get(house, STORED).json()["items"]
    assert (report["job_id"], report["status"]) == (run["job_id"], "succeeded")
    content = get(house, f"{STORED}/{report['id']}").json()["content"]
    assert content["costs"]["time_zone"] == "Asia/Shanghai"
    assert [row["model"] for row in content["costs"]["rows"]] == ["m"]


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"interval": "last_year"},
        {"interval": "last_day", "group_by": ["weather"]},
        {"interval": "last_day", "time_zone": "Mars/Olympus"},
    ],
)
def test_what_cannot_be_made_is_refused_before_it_is_scheduled(
    house: House, parameters: dict[str, Any]
) -> None:
    schedule = {"name": "x", "action": "cost_report", "parameters": parameters, "every_seconds": 3600}
    for path, body in (("/v1/schedules", schedule), (STORED, parameters)):
        assert house.client.post(path, headers=house.key("reports"), json=body).status_code == 422


def test_the_same_idempotency_key_makes_one_report(house: House) -> None:
    headers = house.key("reports") | {"Idempotency-Key": "report-1"}
    body = {"interval": "month_to_date"}
    ids = {house.client.post(STORED, headers=headers, json=body).json()["id"] for _ in range(2)}
    assert len(ids) == 1
