"""One attempt against real servers on this machine."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tenancy.webhooks.addresses import AddressPolicy
from tenancy.webhooks.sender import Attempt, WebhookSender
from tests.receivers import Receiver, raw_receiver

NOW = datetime(2026, 12, 1, tzinfo=UTC)
TIMEOUT = 0.4


def post(url: str, policy: AddressPolicy | None = None) -> Attempt:
    sender = WebhookSender(policy or AddressPolicy(allow_private=True), timeout_seconds=TIMEOUT)
    return sender.post(url, b'{"a":1}', {"webhook-id": "dlv_1"}, at=NOW)


def test_a_body_arrives_as_it_is_with_its_headers() -> None:
    with Receiver().listening() as receiver:
        attempt = post(receiver.url)
    [(headers, body)] = receiver.got
    assert (body, headers["webhook-id"], headers["Host"]) == (b'{"a":1}', "dlv_1", receiver.url.split("/")[2])
    assert attempt.succeeded
    assert (attempt.status, attempt.response, attempt.error) == (200, "thanks", None)


def test_the_connection_goes_to_the_address_that_was_checked_and_the_name_stays_in_host() -> None:
    asked: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    with Receiver().listening() as receiver:
        url = receiver.url.replace("127.0.0.1", "hooks.example")
        attempt = post(url, AddressPolicy(allow_private=True, resolve=resolve))
    assert attempt.succeeded
    assert asked == ["hooks.example"]
    assert receiver.got[0][0]["Host"].startswith("hooks.example:")


def test_an_internal_address_is_never_connected_to() -> None:
    with Receiver().listening() as receiver:
        attempt = post(receiver.url, AddressPolicy())
    assert receiver.got == []
    assert attempt.status is None
    assert "not a public address" in attempt.reason


def test_a_redirect_is_not_followed() -> None:
    with Receiver().listening() as inside, Receiver(status=307).listening() as receiver:
        receiver.headers["Location"] = inside.url
        attempt = post(receiver.url)
    assert (attempt.succeeded, attempt.status, inside.got) == (False, 307, [])
    assert "redirects are not followed" in attempt.reason


def test_of_several_addresses_one_that_refuses_does_not_matter() -> None:
    with Receiver().listening() as receiver:
        policy = AddressPolicy(allow_private=True, resolve=lambda host, port: ["127.0.0.2", "127.0.0.1"])
        assert post(receiver.url, policy).succeeded


def hang(connection: socket.socket, stop: threading.Event) -> None:
    stop.wait()


def drip_headers(connection: socket.socket, stop: threading.Event) -> None:
    drip(connection, stop, b"HTTP/1.1 200 OK\r\nX: ")


def drip_body(connection: socket.socket, stop: threading.Event) -> None:
    drip(connection, stop, b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n")


def drip(connection: socket.socket, stop: threading.Event, beginning: bytes) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(beginning)
        while not stop.wait(0.02):
            connection.sendall(b"x")


@pytest.mark.parametrize("serve", [hang, drip_headers, drip_body])
def test_a_receiver_has_one_time_limit_however_it_spends_it(
    serve: Callable[[socket.socket, threading.Event], None],
) -> None:
    started_at = time.monotonic()
    with raw_receiver(serve) as url:
        attempt = post(url)
        took = time.monotonic() - started_at
    assert attempt.reason == f"The receiver did not answer within {TIMEOUT} s."
    assert took < 4 * TIMEOUT


def test_of_an_endless_answer_the_beginning_is_kept() -> None:
    def pour(connection: socket.socket, stop: threading.Event) -> None:
        with contextlib.suppress(OSError):
            connection.sendall(b"HTTP/1.1 500 Oops\r\nContent-Length: 999999999\r\n\r\n")
            while not stop.is_set():
                connection.sendall("坏\0".encode() * 1000)

    with raw_receiver(pour) as url:
        attempt = post(url)
    assert (attempt.status, attempt.error) == (500, None)
    assert attempt.response == "坏" * 500


@pytest.mark.parametrize(
    "answer", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"]
)
def test_what_is_no_answer_is_told_as_a_failed_connection(answer: bytes) -> None:
    def serve(connection: socket.socket, stop: threading.Event) -> None:
        connection.recv(65536)
        connection.sendall(answer)

    with raw_receiver(serve) as url:
        assert post(url).reason.startswith("The connection failed: ")


def test_nobody_listening_and_no_such_name_are_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    def nowhere(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    assert "refused" in post(f"http://127.0.0.1:{port}/").reason
    assert "no such name" in post("http://nowhere.example/", AddressPolicy(resolve=nowhere)).reason
