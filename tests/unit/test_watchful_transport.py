"""Breaking off a request while the engine still says nothing, over real sockets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from core.cancellation import Checkpoint, watching
from core.errors import JobCancelled
from inference.completions_client import ClientTimeouts, CompletionsClient
from inference.protocols import GenerationRequest, SamplingParameters
from inference.watchful_transport import WatchfulTransport
from tests.engine_double import MODEL, running_double


@contextmanager
def mute_server() -> Iterator[tuple[str, list[bytes]]]:
    """Takes one request and answers nothing; what it heard last is b"" once the client has hung up."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                while not heard or heard[-1]:
                    heard.append(connection.recv(65536))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", heard
        thread.join(timeout=5)


def unwanted_after(seconds: float) -> Checkpoint:
    until = time.monotonic() + seconds

    def checkpoint() -> None:
        if time.monotonic() > until:
            raise JobCancelled("Stop.")

    return checkpoint


def test_a_request_without_an_answer_is_broken_off_when_it_is_not_wanted_any_more() -> None:
    with (
        mute_server() as (url, heard),
        httpx.Client(transport=WatchfulTransport(limits=httpx.Limits()), timeout=60) as client,
        watching(unwanted_after(0.3)),
        pytest.raises(JobCancelled),
    ):
        client.get(url)
    assert heard[-1] == b""


def test_a_time_limit_holds_as_without_watching() -> None:
    started = time.monotonic()
    with (
        mute_server() as (url, _),
        httpx.Client(transport=WatchfulTransport(limits=httpx.Limits()), timeout=0.4) as client,
        pytest.raises(httpx.ReadTimeout),
    ):
        client.get(url)
    assert time.monotonic() - started >= 0.35


def test_an_engine_that_computes_a_prompt_is_left_at_once_and_hears_of_it() -> None:
    with running_double() as double:
        client = CompletionsClient(
            double.url, model=MODEL, timeouts=ClientTimeouts(silence_seconds=60, health_seconds=5)
        )
        client.info()
        double.behaviour.freeze_after = 0
        request = GenerationRequest(list(range(20)), SamplingParameters(max_tokens=20))
        with (
            watching(unwanted_after(0.3)),
            pytest.raises(JobCancelled),
            client.stream(request) as deltas,
        ):
            list(deltas)
        double.behaviour.freeze_after = None
        with client.stream(request) as deltas:
            assert list(deltas)[-1].finish_reason == "length"
        client.close()
