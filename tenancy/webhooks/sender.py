"""One attempt to deliver: to the address that was checked, within one deadline, without redirects."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpcore
import httpx

from core.errors import InvalidInput
from tenancy.webhooks.addresses import AddressPolicy, port_of

_MAX_READ_BYTES = 16 * 1024
_MAX_KEPT_CHARACTERS = 1000
_MAX_ADDRESSES = 4
_GONE = 410


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of it: `status` and the beginning of the `response`, or `error` where there was none."""

    at: datetime
    seconds: float
    status: int | None = None
    response: str = ""
    error: str | None = None

    @property
    def succeeded(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def receiver_is_gone(self) -> bool:
        return self.status == _GONE

    @property
    def reason(self) -> str:
        """Why it is none that succeeded."""
        if self.status is not None and 300 <= self.status < 400:
            return f"The receiver answered {self.status}; redirects are not followed."
        return self.error or f"The receiver answered {self.status}."


class WebhookSender:
    """Posts bodies. Safe to share between threads.

    Args:
        timeout_seconds: of the whole attempt but for the resolution of the name, however slowly a
            receiver drips its answer.
    """

    def __init__(self, policy: AddressPolicy, *, timeout_seconds: float) -> None:
        self._policy = policy
        self._timeout_seconds = timeout_seconds
        self._tls = httpx.create_ssl_context()

    def post(self, url: str, body: bytes, headers: Mapping[str, str], *, at: datetime) -> Attempt:
        """Never raises for what a receiver can do wrong."""
        started_at = time.monotonic()
        status, response, error = None, "", None
        try:
            parsed = self._policy.parse(url)
            # Looked up here and connected to below: a name that leads elsewhere a moment later
            # cannot bring the request to an address that was not checked.
            addresses = self._policy.addresses(parsed)
            status, response = self._post(parsed, addresses, body, headers)
        except InvalidInput as refused:
            error = refused.detail
        except httpcore.TimeoutException:
            error = f"The receiver did not answer within {self._timeout_seconds:g} s."
        except (httpcore.NetworkError, httpcore.ProtocolError, OSError) as failure:
            error = f"The connection failed: {str(failure) or type(failure).__name__}."
        return Attempt(at, round(time.monotonic() - started_at, 3), status, response, error)

    def _post(
        self, url: httpx.URL, addresses: Sequence[str], body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, str]:
        backend = _PinnedBackend(addresses[:_MAX_ADDRESSES], _Deadline(self._timeout_seconds))
        target = httpcore.URL(
            scheme=url.raw_scheme, host=url.raw_host, port=port_of(url), target=url.raw_path
        )
        sent = {"Host": url.netloc.decode("ascii"), "Accept-Encoding": "identity"} | dict(headers)
        with (
            httpcore.ConnectionPool(ssl_context=self._tls, network_backend=backend) as pool,
            pool.stream("POST", target, headers=list(sent.items()), content=body) as response,
        ):
            return response.status, _beginning(response.iter_stream())


def _beginning(parts: Iterable[bytes]) -> str:
    """The first characters of a body; whatever else it has is not read."""
    read = b""
    for part in parts:
        read += part
        if len(read) >= _MAX_READ_BYTES:
            break
    text = read.decode("utf-8", errors="replace")[:_MAX_KEPT_CHARACTERS]
    return "".join(character for character in text if character.isprintable() or character in "\n\t")


class _Deadline:
    def __init__(self, seconds: float) -> None:
        self._ends_at = time.monotonic() + seconds

    def remaining(self) -> float:
        """Raises `httpcore.TimeoutException` once nothing remains."""
        seconds = self._ends_at - time.monotonic()
        if seconds <= 0:
            raise httpcore.TimeoutException
        return seconds


class _PinnedBackend(httpcore.NetworkBackend):
    """Connects to the addresses given, whatever the host's name; the name is for TLS and `Host`."""

    def __init__(self, addresses: Sequence[str], deadline: _Deadline) -> None:
        self._addresses = addresses
        self._deadline = deadline
        self._sockets = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for num_left, address in zip(range(len(self._addresses), 0, -1), self._addresses, strict=True):
            # One that swallows what is sent must not use up the time of those after it.
            seconds = self._deadline.remaining() / num_left
            try:
                stream = self._sockets.connect_tcp(address, port, timeout=seconds)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
            else:
                return _TimedStream(stream, self._deadline)
        raise failure


class _TimedStream(httpcore.NetworkStream):
    """Gives every operation what remains of one deadline, so that no drip of bytes outlives it."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: _Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, timeout=self._deadline.remaining())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, timeout=self._deadline.remaining())

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        secure = self._stream.start_tls(ssl_context, server_hostname, timeout=self._deadline.remaining())
        return _TimedStream(secure, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
