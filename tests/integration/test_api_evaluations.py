"""Evaluations over the API: what is accepted, shown, reported and compared, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from api.request_limits import MAX_JSON_BYTES
from core.ids import JobId, TenantId
from evaluation.pipeline import EvaluationPipeline
from storage.job_run import JobRun
from storage.jobs import JobQueue
from storage.models import EvaluationItem
from tests.api_fixtures import LEASE, OWNER, House, cite, make_document, open_house

QUESTIONS = [
    {"id": "a", "question": "答案是什么？", "answers": ["四十二"], "evidence": ["四十二。"]},
    {"question": "Who is <b>bold</b>?", "answer": "nobody", "answerable": False},
]


@pytest.fixture
def house(tmp_path: Path, new_database_url: Callable[[], str]) -> Iterator[House]:
    with open_house(tmp_path, database_url=new_database_url()) as house:
        yield house


def create(house: House, tenant: TenantId | None = None, **body: Any) -> Any:
    given = {"collection_id": house.collection(tenant=tenant), "questions": QUESTIONS} | body
    return house.client.post(
        "/v1/evaluations",
        headers=house.key("ask", tenant=tenant),
        json={name: value for name, value in given.items() if value is not None},
    )


def get(house: House, path: str, tenant: TenantId | None = None) -> Any:
    return house.client.get(path, headers=house.key("ask", tenant=tenant))


def work(house: House, job_id: str, *, answered: bool = True) -> None:
    """What workers do: ask, answer, score, until the evaluation has ended."""
    document_id = make_document(house, text=f"四十二。{job_id}")
    pipeline = EvaluationPipeline(house.services.database, max_attempts=1)
    for _ in range(10):
        with house.services.database.write() as session:
            job = JobQueue(session).claim_job(JobId(job_id), OWNER, lease=LEASE)
        assert job is not None
        if pipeline.run(JobRun(job, OWNER, lambda: None)) == "done":
            return
        with house.services.database.write() as session:
            JobQueue(session).yield_job(JobId(job_id), OWNER)
        for waiting in house.worker.queued(house.north):
            if waiting != job_id:
                values = {} if answered else {"outcome": "refused", "text": "没有。"}
                house.worker.claim(waiting)
                house.worker.complete(
                    house.north, waiting, citations=[cite(document_id)] if answered else [], **values
                )
    raise AssertionError("the evaluation does not end")


def test_an_evaluation_is_accepted_followed_and_reported(house: House) -> None:
    made = create(house, name="  夜间 nightly ", parameters={"mode": "extractive", "num_passages": 3})
    assert made.status_code == 202, made.text
    evaluation = made.json()
    assert made.headers["location"] == f"/v1/evaluations/{evaluation['id']}"
    assert (evaluation["status"], evaluation["num_questions"]) == ("queued", 2)
    assert (evaluation["name"], evaluation["report"]) == ("夜间 nightly", None)
    assert evaluation["parameters"]["num_passages"] == 3
    job = get(house, f"/v1/jobs/{evaluation['job_id']}").json()
    assert (job["kind"], job["queue"]) == ("evaluate", "batch")

    work(house, evaluation["job_id"])
    ended = get(house, made.headers["location"]).json()
    assert (ended["status"], ended["num_done"]) == ("succeeded", 2)
    assert ended["report"]["metrics"]["contains_answer"] == {"mean": 1.0, "num": 1}
    assert ended["report"]["refusal"]["accuracy"] == 0.5
    assert ended["report"]["costs"][0]["currency"] == "USD"
    assert get(house, "/v1/evaluations").json()["items"] == [ended]
    assert get(house, f"/v1/evaluations?collection_id={house.collection('other')}").json()["items"] == []


def test_questions_come_in_pages_each_with_what_came_of_it(house: House) -> None:
    evaluation = create(house).json()
    path = f"/v1/evaluations/{evaluation['id']}/items"
    assert [item["status"] for item in get(house, path).json()["items"]] == ["open", "open"]
    work(house, evaluation["job_id"])
    page = get(house, f"{path}?limit=1").json()
    [item] = page["items"]
    assert (item["position"], item["status"], item["question"]["id"]) == (0, "scored", "a")
    assert item["cost"] == {"amount": "0.0000001234", "currency": "USD"}
    assert item["metrics"]["citation_precision"] == 1.0
    assert get(house, f"/v1/answers/{item['result']['answer_id']}").json()["status"] == "succeeded"
    rest = get(house, f"{path}?limit=1&cursor={page['next_cursor']}").json()
    assert [item["position"] for item in rest["items"]] == [1]
    assert rest["next_cursor"] is None
    for cursor in ("x", "-1", "٣", "1e3"):
        assert get(house, f"{path}?cursor={cursor}").status_code == 422


def test_reports_are_pages_that_may_load_nothing(house: House) -> None:
    evaluation = create(house).json()
    path = f"/v1/evaluations/{evaluation['id']}/report.html"
    assert "0 scored" in get(house, path).text  # at any time
    work(house, evaluation["job_id"])
    response = get(house, f"{path}?language=zh")
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["content-security-policy"] == "default-src 'none'; style-src 'unsafe-inline'"
    assert '<html lang="zh">' in response.text
    assert "Who is &lt;b&gt;bold&lt;/b&gt;?" in response.text
    assert get(house, f"{path}?language=de").status_code == 422


def test_two_evaluations_are_compared(house: House) -> None:
    first = create(house).json()
    work(house, first["job_id"], answered=False)
    second = create(house, questions=QUESTIONS[:1]).json()
    work(house, second["job_id"])
    path = f"/v1/evaluations/{first['id']}/comparisons/{second['id']}"
    comparison = get(house, path).json()
    assert (comparison["first"]["id"], comparison["second"]["id"]) == (first["id"], second["id"])
    assert comparison["metrics"]["contains_answer"]["difference"] == 1.0
    assert not comparison["same_questions"]
    assert (comparison["num_compared"], comparison["num_only_first"]) == (1, 1)
    page = get(house, f"{path}/report.html")
    assert "The question sets differ" in page.text
    assert "&lt;b&gt;bold" in page.text


def test_a_question_file_is_taken_as_it_is(house: House) -> None:
    content = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in QUESTIONS)
    made = create(house, questions=None, question_file={"name": "夜间.jsonl", "content": content})
    assert (made.status_code, made.json()["name"]) == (202, "夜间.jsonl")
    items = get(house, f"/v1/evaluations/{made.json()['id']}/items").json()["items"]
    assert items[0]["question"]["evidence"] == [{"text": "四十二。", "document": None, "page": None}]


def test_a_question_file_may_be_larger_than_other_bodies(house: House) -> None:
    content = '{"question": "x", "answer": "' + "y" * 50_000 + '"}\n'
    file = {"name": "q.jsonl", "content": content * (2 * MAX_JSON_BYTES // 50_000)}
    assert create(house, questions=None, question_file=file).status_code == 202
    file["content"] = content * 200
    refused = create(house, questions=None, question_file=file)
    assert (refused.status_code, refused.json()["code"]) == (413, "too_large")
    assert "8,388,608 bytes" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"questions": None}, "either `questions` or `question_file`"),
        ({"question_file": {"name": "a.csv", "content": "question\nx"}}, "either `questions`"),
        ({"questions": []}, "body.questions"),
        ({"questions": [{"question": "x"}, {"question": "?!"}]}, "body.questions.1.question"),
        ({"questions": [{"question": "x", "anser": "y"}]}, "body.questions.0.anser: there is no such field"),
        ({"parameters": {"mood": "auto"}}, "body.parameters.mood: there is no such field"),
        ({"parameters": {"mode": "creative"}}, "body.parameters.mode"),
        ({"parameters": {"num_passages": 0}}, "body.parameters.num_passages"),
        ({"parameters": {"question": "x"}}, "body.parameters.question: there is no such field"),
        ({"parameters": {"stream": True}}, "body.parameters.stream: there is no such field"),
        ({"name": " "}, "body.name"),
        ({"colour": "red"}, "body.colour"),
    ],
)
def test_a_bad_evaluation_is_told_what_is_wrong_and_leaves_nothing(
    house: House, body: dict[str, Any], named: str
) -> None:
    response = create(house, **body)
    assert (response.status_code, response.json()["code"]) == (422, "invalid_input")
    assert named in response.json()["detail"]
    assert get(house, "/v1/evaluations").json()["items"] == []
    assert house.worker.queued(house.north) == []


def test_a_bad_file_is_told_by_line_and_field_and_leaves_nothing(house: House) -> None:
    content = '{"question": "fine?"}\n{"question": "好？", "answer": [1, {}]}\n'
    file = {"name": "q.jsonl", "content": content}
    response = create(house, questions=None, question_file=file)
    assert response.status_code == 422
    assert "q.jsonl, line 2, answer.1:" in response.json()["detail"]
    assert response.json()["faults"][0]["line"] == 2
    assert house.worker.queued(house.north) == []


def test_an_unknown_collection_is_named(house: House) -> None:
    response = create(house, collection_id="col_none")
    assert (response.status_code, response.json()["collection_id"]) == (404, "col_none")


def test_a_repeated_request_makes_one_evaluation(house: House) -> None:
    headers = house.key("ask") | {"Idempotency-Key": "nightly-1"}
    body = {"collection_id": house.collection(), "questions": QUESTIONS}
    first = house.client.post("/v1/evaluations", headers=headers, json=body)
    again = house.client.post("/v1/evaluations", headers=headers, json=body)
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.json()["id"] == first.json()["id"]
    other = house.client.post("/v1/evaluations", headers=headers, json=body | {"name": "other"})
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_mismatch")


def test_an_ended_evaluation_is_deleted_and_its_answers_stay(house: House) -> None:
    evaluation = create(house).json()
    path, headers = f"/v1/evaluations/{evaluation['id']}", house.key("ask")
    early = house.client.delete(path, headers=headers)
    assert (early.status_code, early.json()["code"]) == (409, "conflict")
    work(house, evaluation["job_id"])
    asked = [item["result"]["answer_id"] for item in get(house, f"{path}/items").json()["items"]]
    assert house.client.delete(path, headers=house.key("ask", tenant=house.south)).status_code == 404
    assert house.client.delete(path, headers=headers).status_code == 204
    for gone in (path, f"{path}/items", f"{path}/report.html"):
        assert get(house, gone).status_code == 404
    assert get(house, "/v1/evaluations").json()["items"] == []
    assert [get(house, f"/v1/answers/{each}").status_code for each in asked] == [200, 200]
    assert get(house, f"/v1/jobs/{evaluation['job_id']}").json()["status"] == "succeeded"
    with house.services.database.read() as session:
        assert session.scalar(select(func.count()).select_from(EvaluationItem)) == 0


def test_another_tenants_evaluation_does_not_exist(house: House) -> None:
    mine, theirs = create(house).json()["id"], create(house, tenant=house.south).json()["id"]
    paths = ["", "/items", "/report.html", f"/comparisons/{theirs}", f"/comparisons/{theirs}/report.html"]
    for path in paths:
        assert get(house, f"/v1/evaluations/{mine}{path}", house.south).status_code == 404
        assert get(house, f"/v1/evaluations/{theirs}{path}").status_code == 404
    assert get(house, f"/v1/evaluations/{mine}/comparisons/{theirs}").status_code == 404
    listed = get(house, "/v1/evaluations", house.south).json()["items"]
    assert [each["id"] for each in listed] == [theirs]
    assert create(house, collection_id=house.collection(tenant=house.south)).status_code == 404


def test_only_a_key_that_may_ask_may_evaluate(house: House) -> None:
    body = {"collection_id": house.collection(), "questions": QUESTIONS}
    for scope, status in (("ingest", 403), ("reports", 403), ("ask", 202), ("admin", 202)):
        made = house.client.post("/v1/evaluations", headers=house.key(scope), json=body)
        assert made.status_code == status


def test_cancelling_the_job_of_a_waiting_evaluation_closes_it(house: House) -> None:
    evaluation = create(house).json()
    cancelled = house.client.post(f"/v1/jobs/{evaluation['job_id']}/cancel", headers=house.key("ask"))
    assert cancelled.json()["status"] == "cancelled"
    ended = get(house, f"/v1/evaluations/{evaluation['id']}").json()
    assert ended["status"] == "cancelled"
    assert ended["report"]["num_scored"] == 0
    assert ended["finished_at"] is not None
