"""Batches of questions, over the API and through their job, with answers written as a worker writes them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from core.clock import utc_now
from core.errors import NotFound
from core.ids import JobId, TenantId
from core.priority import BACKGROUND
from generation.batches.pipeline import BatchPipeline
from storage.job_run import JobRun
from storage.jobs import JobQueue
from storage.models import Answer, Job, OutboxMessage, WebhookDelivery
from storage.webhooks import WebhookRepository
from tests.api_fixtures import LEASE, OWNER, House, open_house

LINES = [
    {"custom_id": "甲", "method": "POST", "url": "/v1/questions", "body": {"question": "答案是什么？"}},
    {"custom_id": "b", "question": "Who?", "filter": {"tags": ["x"]}},
    {"custom_id": "c", "question": "=When?", "mode": "extractive"},
]


@pytest.fixture
def house(tmp_path: Path, new_database_url: Callable[[], str]) -> Iterator[House]:
    with open_house(tmp_path, database_url=new_database_url()) as house:
        yield house


def jsonl(*records: object) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


def post(
    house: House,
    data: bytes = jsonl(*LINES),
    *,
    tenant: TenantId | None = None,
    key: str = "",
    **options: Any,
) -> Any:
    return house.client.post(
        f"/v1/collections/{house.collection(tenant=tenant)}/batches",
        params=options,
        headers=house.key("ask", tenant=tenant) | ({"Idempotency-Key": key} if key else {}),
        content=data,
    )


def get(house: House, path: str, tenant: TenantId | None = None) -> Any:
    return house.client.get(path, headers=house.key("ask", tenant=tenant))


def show(house: House, batch: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = get(house, f"/v1/batches/{batch['id']}").json()
    return shown


def result_lines(house: House, batch: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in get(house, f"/v1/batches/{batch['id']}/{kind}").text.splitlines()]


def claim(house: House, job_id: str) -> JobRun:
    with house.services.database.write() as session:
        job = JobQueue(session).claim_job(JobId(job_id), OWNER, lease=LEASE)
    assert job is not None
    return JobRun(job, OWNER, lambda: None)


def look(house: House, batch: dict[str, Any], *, now: datetime | None = None, max_in_flight: int = 2) -> str:
    """One run of the batch's job, given back as the worker gives it back."""
    run = claim(house, batch["job_id"])
    pipeline = BatchPipeline(
        house.services.database,
        max_attempts=1,
        max_in_flight=max_in_flight,
        now=lambda: now or utc_now(),
    )
    outcome = pipeline.run(run)
    if outcome != "done":
        with house.services.database.write() as session:
            JobQueue(session).yield_job(run.job.id, OWNER, available_at=utc_now() + timedelta(seconds=30))
    return outcome


def waiting(house: House, batch: dict[str, Any]) -> list[str]:
    """Jobs of its questions that nobody has taken, oldest first."""
    query = select(Job).where(Job.kind == "answer", Job.status == "queued").order_by(Job.id)
    with house.services.database.read() as session:
        return [job.id for job in session.scalars(query) if job.payload["asked_by"] == batch["job_id"]]


def answer(house: House, job_id: str, **values: Any) -> None:
    house.worker.claim(job_id)
    house.worker.complete(house.north, job_id, **values)


def test_a_file_is_answered_a_few_questions_at_a_time_behind_all_others(house: House) -> None:
    made = post(house, name="夜间 nightly")
    assert made.status_code == 202, made.text
    batch = made.json()
    assert made.headers["location"] == f"/v1/batches/{batch['id']}"
    assert (batch["object"], batch["status"], batch["name"]) == ("batch", "validating", "夜间 nightly")
    assert batch["request_counts"] == {"total": 3, "completed": 0, "failed": 0}

    assert look(house, batch) == "postponed"
    first, second = waiting(house, batch)
    assert claim(house, first).job.priority == BACKGROUND
    house.worker.complete(house.north, first)
    assert look(house, batch) == "postponed"
    assert show(house, batch)["status"] == "in_progress"
    answer(house, second, outcome="refused", text="")
    [third] = waiting(house, batch)
    house.worker.claim(third)
    house.worker.fail(third, NotFound("It is gone."))
    assert look(house, batch) == "done"

    ended = show(house, batch)
    assert (ended["status"], ended["stopped_by"]) == ("completed", None)
    assert ended["request_counts"] == {"total": 3, "completed": 2, "failed": 1}
    assert ended["usage"] == {"prompt_tokens": 60, "cached_tokens": 32, "completion_tokens": 8}
    assert ended["cost"] == {"amount": "0.0000002468", "currency": "USD"}
    assert get(house, "/v1/batches").json()["items"] == [ended]


def test_results_are_lines_in_the_order_of_the_file(house: House) -> None:
    batch = post(house).json()
    look(house, batch, max_in_flight=3)
    jobs = waiting(house, batch)
    for job_id in jobs[:2]:
        answer(house, job_id)
    house.worker.claim(jobs[2])
    house.worker.fail(jobs[2], NotFound("It is gone."))
    assert look(house, batch) == "done"

    output, errors = result_lines(house, batch, "output"), result_lines(house, batch, "errors")
    by_question = {line["custom_id"]: line["response"]["body"]["question"] for line in output}
    assert list(by_question) == sorted(by_question, key=["甲", "b", "c"].index)
    assert by_question["甲"] == "答案是什么？"
    for line in output:
        body = line["response"]["body"]
        assert (line["error"], line["response"]["status_code"]) == (None, 200)
        assert body == get(house, f"/v1/answers/{line['response']['request_id']}").json()
    [failed] = errors
    assert failed["response"]["status_code"] == 404
    assert failed["error"] == {"code": "not_found", "message": "It is gone."}
    response = get(house, f"/v1/batches/{batch['id']}/output?format=csv")
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(response.text, newline="")))
    assert [row["custom_id"] for row in rows] == list(by_question)
    assert "'=When?" in get(house, f"/v1/batches/{batch['id']}/errors?format=csv").text + response.text


def test_questions_about_the_same_documents_follow_one_another(house: House) -> None:
    same, other = {"filter": {"tags": ["x"]}}, {"filter": {"tags": ["y"]}}
    batch = post(house, jsonl(*({"question": f"{i}?"} | (other if i % 2 else same) for i in range(4)))).json()
    look(house, batch, max_in_flight=2)
    with house.services.database.read() as session:
        asked = session.scalars(select(Answer.question).order_by(Answer.id)).all()
    assert asked == ["0?", "2?"]


def test_the_end_of_a_question_wakes_its_batch_and_no_other(house: House) -> None:
    batch, other = post(house).json(), post(house).json()
    look(house, batch)
    look(house, other)

    def due(of: dict[str, Any]) -> int:
        query = select(func.count()).where(
            OutboxMessage.job_id == of["job_id"], OutboxMessage.available_at <= utc_now()
        )
        with house.services.database.read() as session:
            return session.scalar(query) or 0

    before = due(batch), due(other)
    answer(house, waiting(house, batch)[0])
    assert (due(batch), due(other)) == (before[0] + 1, before[1])


def test_several_batches_share_the_places_and_each_has_one(house: House) -> None:
    batch, other = post(house).json(), post(house).json()
    look(house, batch)
    look(house, other)
    assert [len(waiting(house, each)) for each in (batch, other)] == [2, 1]


def test_a_job_that_is_killed_asks_and_counts_nothing_twice(house: House) -> None:
    batch = post(house, jsonl({"question": "a?"}, {"question": "b?"})).json()
    run = claim(house, batch["job_id"])
    BatchPipeline(house.services.database, max_attempts=1).run(run)  # and its worker is gone
    with house.services.database.write() as session:
        session.get_one(Job, batch["job_id"]).lease_expires_at = utc_now() - timedelta(seconds=1)
    with house.services.database.write() as session:
        JobQueue(session).take_up_expired()
    for job_id in waiting(house, batch):
        answer(house, job_id)
    assert look(house, batch) == "done"
    assert show(house, batch)["request_counts"] == {"total": 2, "completed": 2, "failed": 0}
    with house.services.database.read() as session:
        assert session.scalar(select(func.count()).select_from(Answer)) == 2


def test_cancelling_keeps_what_was_answered(house: House) -> None:
    batch = post(house).json()
    look(house, batch)
    first, second = waiting(house, batch)
    answer(house, first)
    response = house.client.post(f"/v1/batches/{batch['id']}/cancel", headers=house.key("ask"))
    assert response.json()["status"] == "cancelled"
    assert show(house, batch)["request_counts"] == {"total": 3, "completed": 1, "failed": 2}
    assert {line["error"]["code"] for line in result_lines(house, batch, "errors")} == {"batch_cancelled"}
    with house.services.database.read() as session:
        assert session.get_one(Job, second).status == "cancelled"
    again = house.client.post(f"/v1/batches/{batch['id']}/cancel", headers=house.key("ask"))
    assert again.json()["status"] == "cancelled"


def test_a_cancelled_batch_tried_again_goes_on_with_what_has_no_answer(house: House) -> None:
    data = jsonl(*LINES, {"custom_id": "bad", "question": ""})
    batch = post(house, data, on_invalid="skip", expires_after_seconds=60).json()
    look(house, batch)
    first, second = waiting(house, batch)
    answer(house, first)
    retry = f"/v1/jobs/{batch['job_id']}/retry"
    assert house.client.post(retry, headers=house.key("ask")).status_code == 409, "it has not ended"
    house.client.post(f"/v1/batches/{batch['id']}/cancel", headers=house.key("ask"))
    assert show(house, batch)["request_counts"] == {"total": 4, "completed": 1, "failed": 3}

    assert house.client.post(retry, headers=house.key("ask")).status_code == 200
    opened = show(house, batch)
    assert opened["request_counts"] == {"total": 4, "completed": 1, "failed": 1}
    assert (opened["status"], opened["finished_at"]) == ("in_progress", None)
    assert opened["expires_at"] > batch["expires_at"]
    look(house, batch)
    again = waiting(house, batch)
    assert (len(again), second in again) == (2, False)
    for job_id in again:
        answer(house, job_id)
    assert look(house, batch) == "done"
    assert show(house, batch)["request_counts"] == {"total": 4, "completed": 3, "failed": 1}
    assert [line["custom_id"] for line in result_lines(house, batch, "errors")] == ["bad"]


def test_webhooks_hear_of_each_end_where_its_results_are(house: House) -> None:
    with house.services.database.write() as session:
        WebhookRepository(session, house.north).create(
            url="https://example.com", event_types=["batch.finished"], description="", secret="whsec_AA=="
        )
    batch = post(house, jsonl(LINES[0], LINES[1])).json()
    look(house, batch)
    answer(house, waiting(house, batch)[0])
    house.client.post(f"/v1/batches/{batch['id']}/cancel", headers=house.key("ask"))
    house.client.post(f"/v1/jobs/{batch['job_id']}/retry", headers=house.key("ask"))
    look(house, batch)
    answer(house, waiting(house, batch)[0])
    look(house, batch)
    with house.services.database.read() as session:
        query = select(WebhookDelivery.payload).order_by(WebhookDelivery.created_at)
        cancelled, done = session.scalars(query).all()
    assert (cancelled["status"], cancelled["num_completed"], cancelled["num_failed"]) == ("cancelled", 1, 1)
    assert (done["status"], done["num_completed"], done["num_failed"]) == ("succeeded", 2, 0)
    assert done["cost"] == show(house, batch)["cost"]["amount"]
    for path in done["links"].values():
        assert get(house, path).status_code == 200


def test_a_batch_that_expires_tells_of_what_it_did_not_answer(house: House) -> None:
    batch = post(house, expires_after_seconds=60).json()
    look(house, batch)
    answer(house, waiting(house, batch)[0])
    assert look(house, batch, now=utc_now() + timedelta(seconds=61)) == "done"
    ended = show(house, batch)
    assert (ended["status"], ended["request_counts"]["completed"]) == ("expired", 1)
    assert {line["error"]["code"] for line in result_lines(house, batch, "errors")} == {"batch_expired"}
    assert waiting(house, batch) == []


def test_no_question_is_asked_once_the_answers_cost_the_most(house: House) -> None:
    batch = post(house, max_cost="0.0000001234").json()
    look(house, batch, max_in_flight=1)
    answer(house, waiting(house, batch)[0])
    assert look(house, batch, max_in_flight=1) == "done"
    ended = show(house, batch)
    assert (ended["status"], ended["stopped_by"], ended["max_cost"]) == (
        "completed",
        "max_cost",
        "0.0000001234",
    )
    assert [line["error"]["code"] for line in result_lines(house, batch, "errors")] == ["batch_max_cost"] * 2


def test_a_bad_file_is_refused_whole_unless_bad_lines_are_to_be_skipped(house: House) -> None:
    data = jsonl(LINES[0], {"custom_id": "bad", "question": ""}, LINES[1])
    refused = post(house, data)
    assert (refused.status_code, refused.json()["faults"][0]["line"]) == (422, 2)
    assert house.worker.queued(house.north) == []
    batch = post(house, data, on_invalid="skip").json()
    assert batch["request_counts"] == {"total": 3, "completed": 0, "failed": 1}
    [line] = result_lines(house, batch, "errors")
    assert (line["custom_id"], line["response"], line["error"]["code"]) == ("bad", None, "invalid_line")
    for empty in (b"", b"\n\n"):
        assert post(house, empty).json()["code"] == "empty_input"


def test_a_form_brings_the_file_with_its_name(house: House) -> None:
    path = f"/v1/collections/{house.collection()}/batches"
    form = {"file": ("问题.csv", "custom_id,question\n1,为什么？\n".encode("gb18030"))}
    made = house.client.post(path, headers=house.key("ask"), files=form)
    assert (made.status_code, made.json()["name"]) == (202, "问题.csv")
    wrong = house.client.post(path, headers=house.key("ask"), files={"other": ("a", b"x")})
    assert wrong.status_code == 422
    assert "no file named `file`" in wrong.json()["detail"]


def test_a_repeated_request_makes_one_batch(house: House) -> None:
    first, again = post(house, key="n-1").json(), post(house, key="n-1").json()
    assert first["id"] == again["id"]
    assert post(house, jsonl(LINES[0]), key="n-1").json()["code"] == "idempotency_mismatch"


def test_another_tenants_batch_does_not_exist(house: House) -> None:
    batch = post(house).json()
    for path in ("", "/output", "/errors"):
        assert get(house, f"/v1/batches/{batch['id']}{path}", house.south).status_code == 404
    theirs = house.client.post(
        f"/v1/batches/{batch['id']}/cancel", headers=house.key("ask", tenant=house.south)
    )
    assert theirs.status_code == 404
    assert get(house, "/v1/batches", house.south).json()["items"] == []
