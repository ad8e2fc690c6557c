from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import httpx
import pytest

from client import Accepted, Delta, Done, PassagesFound, ProblemError, Restarted, Started, UnreachableError
from client.streaming import AnswerStream

Handler = Callable[[httpx.Request], httpx.Response]
ACCEPTED = ("", "accepted", {"answer_id": "ans_1", "job_id": "job_1"})
DONE = ("5-0", "done", {"id": "ans_1", "status": "succeeded", "text": "中文 answer"})


def sse(*events: tuple[str, str, object], broken: bool = False) -> httpx.Response:
    """A stream of (id, event, data); `broken`: the connection dies after it."""

    def body() -> Iterator[bytes]:
        yield b": heartbeat\n\n"
        for event_id, name, data in events:
            head = f"id: {event_id}\n" if event_id else ""
            yield f"{head}event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
        if broken:
            raise httpx.ReadError("connection reset")

    return httpx.Response(200, headers={"Content-Type": "text/event-stream"}, content=body())


def ask(handler: Handler) -> Iterator[object]:
    http = httpx.Client(base_url="http://longleaf.test", transport=httpx.MockTransport(handler))
    stream = AnswerStream(http, read_timeout=5.0, first_pause_seconds=0.0)
    return stream.ask("/v1/collections/col_1/questions", {"question": "?", "stream": True})


def test_events_come_as_types_in_order() -> None:
    response = sse(
        ACCEPTED,
        ("1-0", "started", {"attempt": 1}),
        ("2-0", "passages", {"passages": []}),
        ("3-0", "something_newer", {}),
        ("4-0", "delta", {"text": "中文 "}),
        DONE,
    )
    kinds = [type(event) for event in ask(lambda request: response)]
    assert kinds == [Accepted, Started, PassagesFound, Delta, Done]


def test_a_broken_stream_is_taken_up_where_it_broke() -> None:
    requests: list[httpx.Request] = []
    responses = iter(
        [
            sse(ACCEPTED, ("1-0", "delta", {"text": "one "}), broken=True),
            sse(("2-0", "delta", {"text": "two"})),  # ends without `done`: broke again
            sse(DONE),
        ]
    )

    def handle(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return next(responses)

    events = list(ask(handle))
    assert "".join(event.text for event in events if isinstance(event, Delta)) == "one two"
    assert [(request.method, request.url.path) for request in requests] == [
        ("POST", "/v1/collections/col_1/questions"),
        ("GET", "/v1/answers/ans_1/events"),
        ("GET", "/v1/answers/ans_1/events"),
    ]
    assert [request.headers.get("Last-Event-ID") for request in requests] == [None, "1-0", "2-0"]


def test_a_question_that_broke_before_it_was_accepted_is_asked_under_the_same_key() -> None:
    keys: list[str] = []
    responses = iter([sse(broken=True), sse(ACCEPTED, DONE)])

    def handle(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["Idempotency-Key"])
        return next(responses)

    assert [type(event) for event in ask(handle)] == [Accepted, Done]
    assert keys[0] == keys[1]


def test_acceptance_is_told_once_though_a_resumed_stream_repeats_it() -> None:
    responses = iter([sse(ACCEPTED, broken=True), sse(ACCEPTED, ("1-0", "restart", {"attempt": 2}), DONE)])
    assert [type(event) for event in ask(lambda request: next(responses))] == [Accepted, Restarted, Done]


def test_an_error_event_is_raised_as_its_problem() -> None:
    problem = {"status": 503, "code": "engine_unavailable", "detail": "The engine is away."}
    response = sse(ACCEPTED, ("1-0", "error", problem))
    with pytest.raises(ProblemError, match="The engine is away") as caught:
        list(ask(lambda request: response))
    assert caught.value.status == 503


def test_a_refused_question_is_not_asked_again() -> None:
    num_requests = 0

    def refuse(request: httpx.Request) -> httpx.Response:
        nonlocal num_requests
        num_requests += 1
        return httpx.Response(422, json={"code": "empty_input", "detail": "The question is empty."})

    with pytest.raises(ProblemError, match="The question is empty"):
        list(ask(refuse))
    assert num_requests == 1


def test_a_connection_that_keeps_breaking_is_given_up_with_the_answers_id() -> None:
    with pytest.raises(UnreachableError, match=r"broke 7 times.*ans_1"):
        list(ask(lambda request: sse(ACCEPTED, broken=True)))


def test_a_server_that_is_not_there_is_not_waited_for() -> None:
    num_requests = 0

    def refuse(request: httpx.Request) -> httpx.Response:
        nonlocal num_requests
        num_requests += 1
        raise httpx.ConnectError("refused", request=request)

    with pytest.raises(UnreachableError, match="Nobody answers"):
        list(ask(refuse))
    assert num_requests == 1
