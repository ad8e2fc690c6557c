"""HTTP whose long reads ask several times a second whether the work is still wanted.

An engine says nothing while a request queues in it and while its prompt is computed, which may take
minutes. What is not wanted any more breaks the read off: the connection is closed, and vLLM aborts.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable
from typing import Any

import httpcore
import httpx

from core.cancellation import look

_LOOK_SECONDS = 0.25


class WatchfulTransport(httpx.HTTPTransport):
    """As httpx's own without proxies; a read raises what the checkpoint of the reading thread does."""

    def __init__(self, *, limits: httpx.Limits) -> None:
        super().__init__(limits=limits, trust_env=False)
        self._pool.close()
        # httpx takes no network backend, though what it is built on does.
        self._pool = httpcore.ConnectionPool(
            ssl_context=httpx.create_ssl_context(trust_env=False),
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=_WatchfulBackend(),
        )


class _WatchfulBackend(httpcore.NetworkBackend):
    def __init__(self) -> None:
        self._plain = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        return _WatchfulStream(self._plain.connect_tcp(host, port, timeout, local_address, socket_options))


class _WatchfulStream(httpcore.NetworkStream):
    def __init__(self, plain: httpcore.NetworkStream) -> None:
        self._plain = plain

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _LOOK_SECONDS if until is None else until - time.monotonic()
            try:
                return self._plain.read(max_bytes, max(0.0, min(_LOOK_SECONDS, left)))
            except httpcore.ReadTimeout:
                if left <= _LOOK_SECONDS and until is not None:
                    raise
            look()

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._plain.write(buffer, timeout)

    def close(self) -> None:
        self._plain.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _WatchfulStream(self._plain.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._plain.get_extra_info(info)
