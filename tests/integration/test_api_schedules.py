"""Schedules over HTTP: what is accepted, shown, refused, previewed and run at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from typer.testing import CliRunner

from cli.main import app
from storage.batches import BatchRepository
from storage.models import Job, LedgerEntry
from tests.api_fixtures import House, make_document, open_house, serve

SCHEMA = {"type": "object", "properties": {"名称": {"type": "string"}, "revenue": {"type": "integer"}}}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("schedules")) as house:
        yield house


@pytest.fixture(scope="module")
def collection_id(house: House) -> str:
    document = house.client.get(f"/v1/documents/{make_document(house)}", headers=house.key()).json()
    return str(document["collection_id"])


def create(house: House, collection_id: str, scope: str = "ask", **body: Any) -> Any:
    given = {
        "name": "每晚的表 nightly table",
        "action": "extraction",
        "parameters": {"collection_id": collection_id, "schema": SCHEMA, "method": "rule"},
        "cron": "30 2 * * *",
        "time_zone": "Europe/Berlin",
    }
    kept = {name: value for name, value in (given | body).items() if value is not None}
    return house.client.post("/v1/schedules", headers=house.key(scope), json=kept)


def test_a_schedule_is_made_shown_changed_and_deleted(house: House, collection_id: str) -> None:
    response = create(house, collection_id)
    assert response.status_code == 201, response.text
    made = response.json()
    path = f"/v1/schedules/{made['id']}"
    assert response.headers["location"] == path
    assert (made["catch_up"], made["overlap"], made["paused"]) == ("latest", "skip", False)
    assert made["parameters"]["parameters"]["schema"] == SCHEMA
    assert made["next_at"].endswith(("00:30:00Z", "01:30:00Z"))

    headers = house.key("ask")
    assert house.client.get(path, headers=headers).json() == made
    listed = house.client.get("/v1/schedules?action=extraction", headers=headers).json()["items"]
    assert made["id"] in [each["id"] for each in listed]

    paused = house.client.patch(path, headers=headers, json={"paused": True}).json()
    assert (paused["paused"], paused["next_at"], paused["pause_reason"]) == (True, None, None)
    assert len(house.client.get(f"{path}/next?count=3", headers=headers).json()["items"]) == 3
    change = {"paused": False, "cron": None, "every_seconds": 3600, "start_at": "2030-01-01T08:00:00+08:00"}
    changed = house.client.patch(path, headers=headers, json=change).json()
    assert (changed["cron"], changed["next_at"]) == (None, "2030-01-01T00:00:00Z")

    assert house.client.delete(path, headers=headers).status_code == 204
    assert house.client.get(path, headers=headers).status_code == 404


def test_running_it_now_begins_its_work_whose_cost_stands_in_its_history(
    house: House, collection_id: str
) -> None:
    schedule_id = create(house, collection_id, paused=True).json()["id"]
    headers = house.key("ask") | {"Idempotency-Key": f"now-{schedule_id}"}
    path = f"/v1/schedules/{schedule_id}"
    response = house.client.post(f"{path}/run", headers=headers)
    assert response.status_code == 202, response.text
    run = response.json()
    assert house.client.post(f"{path}/run", headers=headers).json() == run
    assert response.headers["location"] == f"/v1/jobs/{run['job_id']}"
    assert (run["slot_at"], run["outcome"], run["status"], run["costs"]) == (None, "started", "queued", [])
    job = house.client.get(f"/v1/jobs/{run['job_id']}", headers=headers).json()
    assert (job["kind"], job["schedule_id"]) == ("extract", schedule_id)

    with house.services.database.write() as session:
        for number, billed in ((1, True), (2, False)):
            session.add(_line(house, run["job_id"], number, billed=billed))
    [shown] = house.client.get(f"{path}/runs", headers=headers).json()["items"]
    assert shown["costs"] == [{"amount": "0.0000028", "currency": "USD"}]


def _line(house: House, job_id: str, attempt: int, *, billed: bool) -> LedgerEntry:
    return LedgerEntry(
        id=f"led_{job_id}_{attempt}",
        tenant_id=house.north,
        job_id=job_id,
        source=job_id,
        attempt=attempt,
        stage="decode",
        price_stage="decode",
        model="m",
        model_revision="r",
        num_tokens=7,
        price_per_million=Decimal("0.4"),
        cost=Decimal("0.0000028"),
        currency="USD",
        billed=billed,
    )


def test_an_evaluation_runs_from_what_the_schedule_kept(house: House, collection_id: str) -> None:
    questions = [{"question": "口径是多少？", "answers": ["4.2 m"], "evidence": [{"text": "四十二"}]}]
    parameters = {"collection_id": collection_id, "questions": questions, "parameters": {"num_passages": 3}}
    made = create(house, collection_id, action="evaluation", parameters=parameters)
    assert made.status_code == 201, made.text
    run = house.client.post(f"/v1/schedules/{made.json()['id']}/run", headers=house.key("ask"))
    assert run.status_code == 202, run.text
    [evaluation, *_] = house.client.get("/v1/evaluations", headers=house.key("ask")).json()["items"]
    assert evaluation["job_id"] == run.json()["job_id"]
    assert (evaluation["parameters"]["num_passages"], evaluation["num_questions"]) == (3, 1)


def test_a_summary_begins_from_what_the_schedule_kept(house: House, collection_id: str) -> None:
    parameters = {"collection_id": collection_id, "style": "key_points"}
    made = create(house, collection_id, action="summary", parameters=parameters)
    assert made.status_code == 201, made.text
    headers = house.key("ask")
    run = house.client.post(f"/v1/schedules/{made.json()['id']}/run", headers=headers).json()
    [summary, *_] = house.client.get("/v1/summaries", headers=headers).json()["items"]
    job = house.client.get(f"/v1/jobs/{run['job_id']}", headers=headers).json()
    assert (summary["job_id"], summary["parameters"]["style"]) == (run["job_id"], "key_points")
    assert (job["kind"], job["schedule_id"]) == ("summarize", made.json()["id"])


def test_a_batch_asks_the_kept_questions_each_time(house: House, collection_id: str) -> None:
    questions = [{"question": "口径是多少？", "num_passages": 3}, {"custom_id": "b", "question": "How long?"}]
    parameters = {"collection_id": collection_id, "questions": questions, "max_cost": "0.5"}
    made = create(house, collection_id, action="batch", parameters=parameters)
    assert made.status_code == 201, made.text
    ran = [
        house.client.post(f"/v1/schedules/{made.json()['id']}/run", headers=house.key("ask")).json()["job_id"]
        for _ in range(2)
    ]
    batches = house.client.get("/v1/batches", headers=house.key("ask")).json()["items"]
    assert {each["job_id"] for each in batches} == set(ran)
    for batch in batches:
        assert (batch["request_counts"]["total"], batch["max_cost"]) == (2, "0.5")
        with house.services.database.read() as session:
            items = BatchRepository(session, house.north).list_parts(batch["id"])
        assert [(item.custom_id, item.parameters) for item in items] == [
            ("line-1", {"num_passages": 3}),
            ("b", {}),
        ]
    wrong = create(
        house, collection_id, action="batch", parameters=parameters | {"questions": [{"question": ""}]}
    )
    assert (wrong.status_code, wrong.json()["faults"][0]["line"]) == (422, 1)


def test_the_same_idempotency_key_makes_one_schedule(house: House, collection_id: str) -> None:
    body = {
        "name": "once",
        "action": "extraction",
        "parameters": {"collection_id": collection_id, "schema": SCHEMA},
        "every_seconds": 3600,
    }
    headers = house.key("ask") | {"Idempotency-Key": "schedule-1"}
    ids = {house.client.post("/v1/schedules", headers=headers, json=body).json()["id"] for _ in range(2)}
    assert len(ids) == 1


def test_a_preview_shows_what_the_clocks_will_show(house: House) -> None:
    body = {
        "cron": "30 2 * * *",
        "time_zone": "Europe/Berlin",
        "start_at": "2027-03-27T00:00:00+01:00",
        "end_at": "2027-03-29T23:00:00+02:00",
    }
    shown = house.client.post("/v1/schedules/preview", headers=house.key("ask"), json=body).json()
    assert [slot["local"] for slot in shown["items"]] == [
        "2027-03-27T02:30:00+01:00",
        "2027-03-28T03:00:00+02:00",
        "2027-03-29T02:30:00+02:00",
    ]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"cron": "0 0 30 2 *"}, 422, "never fires"),
        ({"cron": "0 0 30 2 *", "time_zone": "Mars/Olympus"}, 422, "IANA"),
        ({"every_seconds": 3600}, 422, "both"),
        ({"cron": None}, 422, "neither"),
        ({"cron": None, "every_seconds": 5}, 422, "from 60"),
        ({"start_at": "2030-01-02T00:00:00Z", "end_at": "2030-01-01T00:00:00Z"}, 422, "not after"),
        ({"end_at": "2020-01-01T00:00:00Z"}, 422, "no slot to come"),
        ({"end_at": "2030-01-01T00:00:00"}, 422, "timezone"),
        ({"action": "make_coffee"}, 422, "cost_report, evaluation, extraction"),
        ({"parameters": {"collection_id": "col_1"}}, 422, "body.parameters.schema"),
        ({"parameters": {"collection_id": "col_1", "schema": SCHEMA}}, 404, "no collection col_1"),
        ({"scope": "reports"}, 403, "'ask'"),
    ],
)
def test_what_is_wrong_is_refused_with_what_to_do(
    house: House, collection_id: str, body: dict[str, Any], status: int, words: str
) -> None:
    response = create(house, collection_id, **body)
    assert response.status_code == status, response.text
    assert words in f"{response.json()['detail']} {response.json()['remedy']}"


def test_a_null_that_means_nothing_is_refused(house: House, collection_id: str) -> None:
    path = f"/v1/schedules/{create(house, collection_id).json()['id']}"
    response = house.client.patch(path, headers=house.key("ask"), json={"overlap": None})
    assert (response.status_code, "leave it out" in response.json()["detail"]) == (422, True)


def test_jobs_that_nobody_scheduled_name_no_schedule(house: House, collection_id: str) -> None:
    body = {"collection_id": collection_id, "schema": SCHEMA}
    made = house.client.post("/v1/extractions", headers=house.key("ask"), json=body).json()
    with house.services.database.read() as session:
        assert session.scalar(select(Job.schedule_id).where(Job.id == made["job_id"])) is None


def test_the_command_line_keeps_schedules(house: House, collection_id: str, tmp_path: Path) -> None:
    order = tmp_path / "table.json"
    order.write_text(json.dumps({"schema": SCHEMA}), encoding="utf-8")
    key = house.issue("ask", "ingest")
    with serve(house.services) as (host, port):

        def run(*words: str) -> str:
            where = ["--url", f"http://{host}:{port}", "--key", key]
            result = CliRunner().invoke(app, ["schedules", *words, *where])
            assert result.exit_code == 0, result.output
            return result.output

        times = ("--cron", "30 2 * * *", "--time-zone", "Asia/Shanghai")
        options = ("--action", "extraction", "--parameters", str(order), "-c", collection_id)
        assert "夜间 nightly" in run("add", "夜间 nightly", *options, *times)
        [made, *_] = house.client.get("/v1/schedules", headers=house.key("ask")).json()["items"]
        assert run("next", made["id"], "--count", "2").count("T02:30:00+08:00") == 2
        assert "T02:30:00+08:00" in run("preview", *times)
        assert "began job_" in run("run", made["id"])
        assert "started" in run("runs", made["id"])
        assert "paused" in run("pause", made["id"])
        assert "30 2 * * * (Asia/Shanghai)" in run("resume", made["id"])
        assert "夜间 nightly" in run("list")
        assert "overlapping runs: skip" in run("show", made["id"])
        assert "deleted" in run("delete", made["id"])
