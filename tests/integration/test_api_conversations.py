"""Conversations over REST, on both databases where it matters: turns, races, other tenants, deletion."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from core.errors import EngineUnavailable
from tests.api_fixtures import House, open_house


@pytest.fixture
def house(tmp_path: Path, redis_url: str) -> Iterator[House]:
    with open_house(tmp_path, redis_url) as house:
        yield house


@pytest.fixture
def any_house(tmp_path: Path, new_database_url: Any) -> Iterator[House]:
    """On SQLite and on PostgreSQL, with Redis away."""
    with open_house(tmp_path, database_url=new_database_url()) as house:
        yield house


def begin(house: House, **body: Any) -> dict[str, Any]:
    response = house.client.post(
        "/v1/conversations",
        headers=house.key("ask"),
        json={"collection_id": house.collection(), "title": "年报 report"} | body,
    )
    assert response.status_code == 201, response.text
    made: dict[str, Any] = response.json()
    assert response.headers["location"] == f"/v1/conversations/{made['id']}"
    return made


def ask(house: House, conversation_id: str, *, headers: dict[str, str] | None = None, **body: Any) -> Any:
    return house.client.post(
        f"/v1/conversations/{conversation_id}/questions",
        headers=house.key("ask") | (headers or {}),
        json={"question": "那2020年呢？", "wait_seconds": 0} | body,
    )


def get(house: House, path: str, **params: Any) -> Any:
    return house.client.get(f"/v1/conversations{path}", headers=house.key("ask"), params=params)


def test_a_conversation_begins_without_turns(house: House) -> None:
    made = begin(house)
    assert (made["title"], made["num_turns"], made["summary"]) == ("年报 report", 0, "")
    assert get(house, f"/{made['id']}").json() == made
    assert get(house, "").json() == {"items": [made], "next_cursor": None}
    assert get(house, f"/{made['id']}/turns").json()["items"] == []


def test_a_conversation_needs_a_collection_that_exists(house: House) -> None:
    body = {"collection_id": "col_none"}
    response = house.client.post("/v1/conversations", headers=house.key("ask"), json=body)
    assert (response.status_code, response.json()["code"]) == (404, "not_found")


def test_beginning_twice_with_one_key_makes_one(house: House) -> None:
    headers = house.key("ask") | {"Idempotency-Key": "begin-1"}
    body = {"collection_id": house.collection()}
    first, second = (
        house.client.post("/v1/conversations", headers=headers, json=body).json() for _ in range(2)
    )
    assert first["id"] == second["id"]


def test_turns_are_numbered_and_listed_in_order_page_by_page(any_house: House) -> None:
    house = any_house
    conversation = begin(house)
    for question in ("谁创立了公司？", "And when?", "那2020年呢？"):
        response = ask(house, conversation["id"], question=question)
        assert response.status_code == 202, response.text
        house.worker.claim(response.json()["job_id"])
        house.worker.complete(house.north, response.json()["job_id"])
    first = get(house, f"/{conversation['id']}/turns", limit=2).json()
    rest = get(house, f"/{conversation['id']}/turns", cursor=first["next_cursor"]).json()
    turns = first["items"] + rest["items"]
    assert [turn["question"] for turn in turns] == ["谁创立了公司？", "And when?", "那2020年呢？"]
    assert [turn["turn"] for turn in turns] == [1, 2, 3]
    assert {turn["conversation_id"] for turn in turns} == {conversation["id"]}
    assert rest["next_cursor"] is None
    assert get(house, f"/{conversation['id']}").json()["num_turns"] == 3


def test_a_cursor_of_another_list_is_refused(house: House) -> None:
    conversation = begin(house)
    response = get(house, f"/{conversation['id']}/turns", cursor="１２")
    assert (response.status_code, response.json()["code"]) == (422, "invalid_input")


def test_a_turn_waits_for_its_answer_like_any_question(house: House) -> None:
    conversation = begin(house)
    with house.worker.running(lambda job_id: house.worker.answer(house.north, job_id), house.north):
        response = ask(house, conversation["id"], wait_seconds=20)
    assert (response.status_code, response.json()["text"]) == (200, "四十二 forty-two [1]")


def test_a_turn_streams_like_any_question(house: House) -> None:
    conversation = begin(house)
    with house.worker.running(lambda job_id: house.worker.answer(house.north, job_id), house.north):
        response = ask(house, conversation["id"], stream=True)
    names = [line.removeprefix("event: ") for line in response.text.splitlines() if line.startswith("event")]
    assert names == ["accepted", "started", "passages", "delta", "delta", "done"]


def test_a_turn_repeated_with_its_key_is_asked_once(house: House) -> None:
    conversation = begin(house)
    headers = {"Idempotency-Key": "turn-1"}
    first, second = (ask(house, conversation["id"], headers=headers) for _ in range(2))
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json()["id"] == second.json()["id"]
    assert get(house, f"/{conversation['id']}").json()["num_turns"] == 1


def test_a_key_used_in_another_conversation_is_found_out(house: House) -> None:
    headers = {"Idempotency-Key": "turn-1"}
    assert ask(house, begin(house)["id"], headers=headers).status_code == 202
    response = ask(house, begin(house)["id"], headers=headers)
    assert (response.status_code, response.json()["code"]) == (422, "idempotency_mismatch")


def test_a_question_is_refused_while_the_turn_before_it_runs(any_house: House) -> None:
    house = any_house
    conversation = begin(house)
    first = ask(house, conversation["id"]).json()
    for _status in ("queued", "running"):
        response = ask(house, conversation["id"])
        problem = response.json()
        assert (response.status_code, problem["code"]) == (409, "conflict")
        assert problem["answer_id"] == first["id"]
        assert f"/v1/answers/{first['id']}/events" in problem["remedy"]
        house.worker.claim(first["job_id"])
    house.worker.complete(house.north, first["job_id"])
    assert ask(house, conversation["id"]).status_code == 202


def test_a_turn_that_failed_or_was_cancelled_is_shown_and_does_not_block(any_house: House) -> None:
    house = any_house
    conversation = begin(house)
    failed = ask(house, conversation["id"]).json()
    house.worker.claim(failed["job_id"])
    house.worker.fail(failed["job_id"], EngineUnavailable("The engine is away."))
    cancelled = ask(house, conversation["id"]).json()
    path = f"/v1/jobs/{cancelled['job_id']}/cancel"
    assert house.client.post(path, headers=house.key()).status_code == 200
    assert ask(house, conversation["id"]).status_code == 202
    turns = get(house, f"/{conversation['id']}/turns").json()["items"]
    assert [turn["status"] for turn in turns] == ["failed", "cancelled", "queued"]


def test_of_questions_asked_at_once_one_becomes_the_turn(any_house: House) -> None:
    house = any_house
    conversation = begin(house)
    together = threading.Barrier(6)

    def race(number: int) -> int:
        together.wait()
        return int(ask(house, conversation["id"], question=f"问题 {number}").status_code)

    with ThreadPoolExecutor(6) as pool:
        statuses = sorted(pool.map(race, range(6)))
    assert statuses == [202, 409, 409, 409, 409, 409]
    assert [turn["turn"] for turn in get(house, f"/{conversation['id']}/turns").json()["items"]] == [1]


def test_another_tenants_conversation_does_not_exist(house: House) -> None:
    conversation = begin(house)
    south = house.key("ask", tenant=house.south)
    path = f"/v1/conversations/{conversation['id']}"
    for response in (
        house.client.get(path, headers=south),
        house.client.get(f"{path}/turns", headers=south),
        house.client.delete(path, headers=south),
        house.client.post(f"{path}/questions", headers=south, json={"question": "谁？"}),
    ):
        assert (response.status_code, response.json()["code"]) == (404, "not_found")
    listed = house.client.get("/v1/conversations", headers=south).json()
    assert listed["items"] == []
    assert get(house, f"/{conversation['id']}").status_code == 200


def test_a_deleted_conversation_takes_no_questions_and_its_answers_stay(any_house: House) -> None:
    house = any_house
    conversation = begin(house)
    answer = ask(house, conversation["id"]).json()
    path = f"/v1/conversations/{conversation['id']}"
    assert house.client.delete(path, headers=house.key("ask")).status_code == 204
    assert get(house, "").json()["items"] == []
    assert get(house, f"/{conversation['id']}").status_code == 404
    assert get(house, f"/{conversation['id']}/turns").status_code == 404
    assert ask(house, conversation["id"]).status_code == 404
    assert house.client.delete(path, headers=house.key("ask")).status_code == 404
    kept = house.client.get(f"/v1/answers/{answer['id']}", headers=house.key("ask"))
    assert kept.json()["conversation_id"] == conversation["id"]


def test_a_conversation_about_a_deleted_collection_refuses_questions(house: House) -> None:
    conversation = begin(house)
    path = f"/v1/collections/{conversation['collection_id']}"
    assert house.client.delete(path, headers=house.key()).status_code == 204
    response = ask(house, conversation["id"])
    assert response.status_code == 404
    assert conversation["collection_id"] in response.json()["detail"]
    assert get(house, f"/{conversation['id']}").json()["num_turns"] == 0


def test_an_empty_question_takes_no_turn(house: House) -> None:
    conversation = begin(house)
    response = ask(house, conversation["id"], question="？！")
    assert (response.status_code, response.json()["code"]) == (422, "empty_input")
    assert get(house, f"/{conversation['id']}").json()["num_turns"] == 0
