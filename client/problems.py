"""What can go wrong between a client and a server.

ClientError
├── ProblemError         the server said no, and why (RFC 9457)
├── SignatureError       a webhook is not the server's: client/webhooks.py
└── UnreachableError    nobody answered, or the connection broke for good
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import httpx


class ClientError(Exception):
    """A call did not bring what was asked for. `str()` says what happened and what to do."""


class UnreachableError(ClientError):
    """Nobody answered at the address given."""


class ProblemError(ClientError):
    """The server's problem details.

    Args:
        status: of HTTP; 0 where a job failed rather than a request.
        code: stable and machine-readable, such as `not_found`.
        title: what kind of problem it is.
        detail: what happened, to which object.
        remedy: what to do about it.
        context: ids and numbers that came along.
    """

    def __init__(
        self,
        *,
        status: int,
        code: str,
        title: str,
        detail: str,
        remedy: str = "",
        context: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.title = title
        self.detail = detail
        self.remedy = remedy
        self.context = dict(context or {})

    def __str__(self) -> str:
        return f"{self.detail or self.title} {self.remedy}".strip()


_OWN_FIELDS = frozenset({"type", "title", "status", "detail", "code", "remedy", "instance"})


def problem_from_body(body: Mapping[str, Any], *, status: int = 0) -> ProblemError:
    """A problem as it came in a response, in an event, or as the `error` of a finished job."""
    return ProblemError(
        status=int(body.get("status") or status),
        code=str(body.get("code") or "unknown"),
        title=str(body.get("title") or ""),
        detail=str(body.get("detail") or ""),
        remedy=str(body.get("remedy") or ""),
        context={name: value for name, value in body.items() if name not in _OWN_FIELDS},
    )


def raise_for_problem(response: httpx.Response) -> None:
    """Do nothing for a success; the body must have been read.

    Raises:
        ProblemError: for every other status, also where a proxy answered without problem details.
    """
    if response.is_success:
        return
    try:
        body = response.json()
    except ValueError:
        body = None
    if isinstance(body, dict) and "code" in body:
        raise problem_from_body(body, status=response.status_code)
    raise ProblemError(
        status=response.status_code,
        code="http_error",
        title=_phrase(response.status_code),
        detail=f"{response.request.method} {response.request.url} answered {response.status_code} "
        f"{_phrase(response.status_code)} without saying why.",
        remedy="Is that the address of a Longleaf server?",
    )


def unreachable(url: str, error: httpx.TransportError) -> UnreachableError:
    """An error that names the server and tells a refused connection from a silent one."""
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return UnreachableError(
            f"Nobody answers at {url}. Start Longleaf with `longleaf up`, or give another address."
        )
    if isinstance(error, httpx.TimeoutException):
        return UnreachableError(f"{url} has been silent for too long. Look at the server's log.")
    return UnreachableError(f"The connection to {url} broke: {error or type(error).__name__}.")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "unknown status"
