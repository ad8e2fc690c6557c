"""Asking: waiting, coming back, failing, repeating; with Redis there and with Redis away."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.errors import EngineOverloaded, EngineUnavailable, TooLong
from core.ids import AnswerId, JobId
from generation.questions import MAX_QUESTION_CHARACTERS
from storage.answers import AnswerRepository
from tests.api_fixtures import House, make_answer, open_house


@pytest.fixture
def house(tmp_path: Path, redis_url: str) -> Iterator[House]:
    with open_house(tmp_path, redis_url) as house:
        yield house


def ask(house: House, *, headers: dict[str, str] | None = None, **body: Any) -> Any:
    return house.client.post(
        f"/v1/collections/{house.collection()}/questions",
        headers=house.key("ask") | (headers or {}),
        json={"question": "生命的意义是什么？"} | body,
    )


def test_an_answer_that_is_waited_for_comes_whole(house: House) -> None:
    with house.worker.running(lambda job_id: house.worker.answer(house.north, job_id), house.north):
        response = ask(house, wait_seconds=20)
    assert response.status_code == 200
    answer = response.json()
    assert answer["status"] == "succeeded"
    assert answer["text"] == "四十二 forty-two [1]"
    assert answer["usage"] == {"prompt_tokens": 30, "cached_tokens": 16, "completion_tokens": 4}
    assert answer["cost"] == {"amount": "0.0000001234", "currency": "USD"}
    assert answer["timings"]["ttft_seconds"] == 0.1
    assert answer["passages"][0]["document_name"] == "指南.pdf"
    assert answer["finished_at"] is not None
    again = house.client.get(response.headers["location"], headers=house.key("ask"))
    assert again.json() == answer


def test_the_end_is_heard_at_once_and_not_at_the_next_poll(house: House) -> None:
    ended_at: list[float] = []

    def answer(job_id: JobId) -> None:
        time.sleep(0.3)
        house.worker.answer(house.north, job_id)
        ended_at.append(time.perf_counter())

    with house.worker.running(answer, house.north):
        assert ask(house, wait_seconds=20).status_code == 200
        delay = time.perf_counter() - ended_at[0]
    assert delay < 0.5


def test_not_waiting_gives_202_and_where_to_come_back(house: House) -> None:
    response = ask(house, wait_seconds=0)
    assert response.status_code == 202
    answer = response.json()
    assert (answer["status"], answer["text"], answer["mode"]) == ("queued", None, "auto")
    assert response.headers["location"] == f"/v1/answers/{answer['id']}"
    house.worker.claim(answer["job_id"])
    running = house.client.get(response.headers["location"], headers=house.key("ask"))
    assert (running.status_code, running.json()["status"]) == (200, "running")


def test_waiting_ends_after_the_time_asked_for(house: House) -> None:
    started = time.perf_counter()
    response = ask(house, wait_seconds=0.3)
    assert response.status_code == 202
    assert 0.3 <= time.perf_counter() - started < 3


def test_parameters_reach_the_worker(house: House) -> None:
    answer = make_answer(house)
    assert answer.parameters["mode"] == "auto"
    body = ask(house, wait_seconds=0, mode="extractive", num_passages=3, temperature=0).json()
    assert body["mode"] == "extractive"


def test_sampling_reaches_the_worker(house: House) -> None:
    given = {"preset": "creative", "n": 3, "logit_bias": {"7": -1}, "bad_words": ["坏"], "stop": ["。"]}
    answer = ask(house, wait_seconds=0, mode="abstractive", **given).json()
    with house.services.database.read() as session:
        stored = AnswerRepository(session, house.north).get(AnswerId(answer["id"])).parameters
    assert {name: stored[name] for name in given} == given | {"logit_bias": [[7, -1.0]]}


def test_a_question_may_be_kept_to_documents_of_a_time(house: House) -> None:
    moments = {"uploaded_from": "2026-01-01T00:00:00+08:00", "uploaded_before": "2027-01-01T00:00:00Z"}
    response = ask(house, wait_seconds=0, filter=moments)
    assert response.status_code == 202, response.text
    impossible = ask(house, wait_seconds=0, filter={"uploaded_from": "0001-01-01T00:00:00+14:00"})
    assert (impossible.status_code, impossible.json()["code"]) == (422, "invalid_input")


def test_a_failed_answer_is_its_problem(house: House) -> None:
    def fail(job_id: JobId) -> None:
        house.worker.claim(job_id)
        house.worker.fail(job_id, TooLong("The question has 9,000 tokens.", remedy="Shorten it."))
        house.worker.publish(job_id, "finished", {"status": "failed"})

    with house.worker.running(fail, house.north):
        response = ask(house, wait_seconds=20)
    problem = response.json()
    assert (response.status_code, problem["code"]) == (422, "too_long")
    assert problem["detail"] == "The question has 9,000 tokens. Shorten it."
    stored = house.client.get(f"/v1/answers/{problem['answer_id']}", headers=house.key("ask"))
    assert (stored.status_code, stored.json()["error"]["code"]) == (200, "too_long")
    assert stored.json()["job_id"] == problem["job_id"]


def test_an_engine_that_is_away_is_503(house: House) -> None:
    def fail(job_id: JobId) -> None:
        house.worker.claim(job_id)
        house.worker.fail(job_id, EngineUnavailable("The engine does not answer."))
        house.worker.publish(job_id, "finished", {"status": "failed"})

    with house.worker.running(fail, house.north):
        assert ask(house, wait_seconds=20).status_code == 503


def test_an_engine_that_stays_full_is_503_with_the_time_to_come_back(house: House) -> None:
    def fail(job_id: JobId) -> None:
        house.worker.claim(job_id)
        house.worker.fail(job_id, EngineOverloaded("The generation engine is full."))
        house.worker.publish(job_id, "finished", {"status": "failed"})

    with house.worker.running(fail, house.north):
        response = ask(house, wait_seconds=20)
    assert (response.status_code, response.json()["code"]) == (503, "engine_overloaded")
    assert int(response.headers["retry-after"]) > 0


def test_an_answer_cancelled_while_it_is_waited_for_says_so(house: House) -> None:
    responses: list[Any] = []
    waiting = threading.Thread(target=lambda: responses.append(ask(house, wait_seconds=20)))
    waiting.start()
    while not (queued := house.worker.queued(house.north)):
        time.sleep(0.01)
    house.client.post(f"/v1/jobs/{queued[0]}/cancel", headers=house.key())
    waiting.join()
    assert (responses[0].status_code, responses[0].json()["code"]) == (409, "job_cancelled")


def test_an_end_that_only_sql_knows_is_noticed(house: House) -> None:
    def answer(job_id: JobId) -> None:
        house.worker.claim(job_id)
        house.worker.complete(house.north, job_id)

    with house.worker.running(answer, house.north):
        assert ask(house, wait_seconds=20).json()["status"] == "succeeded"


def test_an_end_announced_before_it_is_in_sql_is_not_believed(house: House) -> None:
    def answer(job_id: JobId) -> None:
        house.worker.claim(job_id)
        house.worker.publish(job_id, "finished", {"status": "succeeded"})
        time.sleep(0.2)
        house.worker.complete(house.north, job_id)

    with house.worker.running(answer, house.north):
        assert ask(house, wait_seconds=20).json()["status"] == "succeeded"


def test_with_redis_away_questions_are_still_answered(tmp_path: Path) -> None:
    with (
        open_house(tmp_path) as house,
        house.worker.running(lambda job_id: house.worker.answer(house.north, job_id), house.north),
    ):
        response = ask(house, wait_seconds=20)
    assert (response.status_code, response.json()["status"]) == (200, "succeeded")


def test_a_repeated_question_gives_the_first_answer(house: House) -> None:
    headers = {"Idempotency-Key": "question-1"}
    first = ask(house, headers=headers, wait_seconds=0).json()
    house.worker.answer(house.north, first["job_id"])
    again = ask(house, headers=headers, wait_seconds=20)
    assert (again.status_code, again.json()["id"]) == (200, first["id"])
    other = ask(house, headers=headers, wait_seconds=0, question="另一个问题？")
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_mismatch")


def test_answers_are_listed_newest_first_and_by_collection(house: House) -> None:
    first, second = ask(house, wait_seconds=0).json()["id"], ask(house, wait_seconds=0).json()["id"]
    other = house.collection("other")

    def listed(query: str = "") -> list[str]:
        items = house.client.get(f"/v1/answers{query}", headers=house.key("ask")).json()["items"]
        return [item["id"] for item in items]

    assert listed() == listed(f"?collection_id={house.collection()}") == [second, first]
    assert listed(f"?collection_id={other}") == []


@pytest.mark.parametrize(
    ("body", "status", "code", "named"),
    [
        ({"question": ""}, 422, "empty_input", "question is empty"),
        ({"question": " \n？！ "}, 422, "empty_input", "question is empty"),
        ({"question": "长" * (MAX_QUESTION_CHARACTERS + 1)}, 422, "too_long", "50,001 characters"),
        ({"question": "x" * 2_000_000}, 413, "too_large", "1,048,576 bytes"),
        ({"question": None}, 422, "invalid_input", "body.question"),
        ({"temprature": 0.5}, 422, "invalid_input", "body.temprature: there is no such field"),
        ({"temperature": 2.5}, 422, "invalid_input", "body.temperature"),
        ({"top_p": 0}, 422, "invalid_input", "body.top_p"),
        ({"mode": "creative"}, 422, "invalid_input", "body.mode"),
        ({"num_passages": 51}, 422, "invalid_input", "body.num_passages"),
        ({"max_tokens": 0}, 422, "invalid_input", "body.max_tokens"),
        ({"seed": 2**63}, 422, "invalid_input", "body.seed"),
        ({"seed": -1}, 422, "invalid_input", "body.seed"),
        ({"temperature": "0.5"}, 422, "invalid_input", "body.temperature"),
        ({"logit_bias": {"the": 1}}, 422, "invalid_input", "'the' is not a token id"),
        ({"min_tokens": 9, "max_tokens": 8}, 422, "invalid_input", "min_tokens is 9, but max_tokens is 8"),
        ({"beam_width": 2, "n": 3}, 422, "invalid_input", "gives one answer, not n=3"),
        ({"mode": "extractive", "seed": 7}, 422, "invalid_input", "seed can have no effect"),
        ({"stop": [""]}, 422, "invalid_input", "body.stop.0"),
        ({"stop": ["x"] * 17}, 422, "invalid_input", "body.stop"),
        ({"wait_seconds": 301}, 422, "invalid_input", "body.wait_seconds"),
        ({"wait_seconds": -1}, 422, "invalid_input", "body.wait_seconds"),
    ],
)
def test_a_bad_question_is_told_what_is_wrong(
    house: House, body: dict[str, Any], status: int, code: str, named: str
) -> None:
    response = ask(house, **body)
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert named in response.json()["detail"]
    assert house.worker.queued(house.north) == []


@pytest.mark.parametrize(
    "content",
    [b'{"question": "why \\ud800?"}', b'{"question": "x", "temperature": NaN}', b"[" * 100_000, b"", b"null"],
)
def test_a_body_that_json_allows_and_we_do_not_is_a_problem(house: House, content: bytes) -> None:
    response = house.client.post(
        f"/v1/collections/{house.collection()}/questions", headers=house.key(), content=content
    )
    assert (response.status_code, response.json()["code"]) == (422, "invalid_input")
    assert response.headers["content-type"] == "application/problem+json"


def test_an_endless_body_is_cut_off(house: House) -> None:
    def endless() -> Iterator[bytes]:
        yield b'{"question": "'
        while True:
            yield b"x" * 65536

    response = house.client.post(
        f"/v1/collections/{house.collection()}/questions",
        headers=house.key() | {"Content-Type": "application/json"},
        content=itertools.islice(endless(), 100),
    )
    assert (response.status_code, response.json()["code"]) == (413, "too_large")


def test_an_unknown_collection_is_named(house: House) -> None:
    response = house.client.post(
        "/v1/collections/col_none/questions", headers=house.key(), json={"question": "why?"}
    )
    assert (response.status_code, response.json()["code"]) == (404, "not_found")
    assert response.json()["collection_id"] == "col_none"
    assert "GET /v1/collections" in response.json()["remedy"]
