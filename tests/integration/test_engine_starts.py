"""Engines that started are seen once, by one of the relays."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import redis

from workers.engine_starts import EngineStarts


class MetricsServer(ThreadingHTTPServer):
    """Says when it began."""

    started_at: float | None = 1_796_091_591.66


class _Handler(BaseHTTPRequestHandler):
    server: MetricsServer

    def log_message(self, format: str, *args: object) -> None:
        """Tests have no use for an access log."""

    def do_GET(self) -> None:
        started = self.server.started_at
        body = b"" if started is None else f"process_start_time_seconds {started!r}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def running() -> Iterator[MetricsServer]:
    with MetricsServer(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


def test_a_start_is_new_once_for_all_relays_and_a_restart_is_new_again(client: redis.Redis) -> None:
    with running() as server:
        url = f"http://127.0.0.1:{server.server_port}"
        relays = [EngineStarts([url], api_key="", client=client) for _ in range(2)]
        assert relays[0].new_starts() == [url]
        assert relays[1].new_starts() == relays[0].new_starts() == []
        assert server.started_at is not None
        server.started_at += 100
        assert relays[1].new_starts() == [url]
        assert relays[0].new_starts() == []


def test_an_engine_that_is_down_or_does_not_tell_has_not_started(client: redis.Redis) -> None:
    with running() as server:
        server.started_at = None
        urls = [f"http://127.0.0.1:{server.server_port}", "http://127.0.0.1:9"]
        assert EngineStarts(urls, api_key="", client=client).new_starts() == []
