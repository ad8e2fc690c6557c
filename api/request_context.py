"""Around every request: an id, a line in the log, a count, and an answer whatever goes wrong."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

import structlog
from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.metrics import ApiMetrics
from api.problems import internal_error
from core.ids import new_id

log = structlog.get_logger()

HEADER = "X-Request-ID"
UNMATCHED = "unmatched"

_EXTRA = "extra_headers"

_ACCEPTABLE = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RequestContext:
    """ASGI middleware, outermost of ours. A caller's own `X-Request-ID` is kept if it is tame."""

    def __init__(self, app: ASGIApp, metrics: ApiMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        extra: dict[str, str] = {}
        scope.setdefault("state", {}).update({"request_id": request_id, _EXTRA: extra})
        structlog.contextvars.bind_contextvars(request_id=request_id)
        response = _Response(send, request_id, extra)
        started = time.perf_counter()
        self._metrics.begin()
        try:
            await self._answer(scope, receive, response)
        finally:
            self._record(scope, response.status, time.perf_counter() - started)
            structlog.contextvars.unbind_contextvars("request_id")

    async def _answer(self, scope: Scope, receive: Receive, response: _Response) -> None:
        try:
            await self._app(scope, receive, response.send)
        except ClientDisconnect:
            return  # nobody is left to be answered
        except Exception:
            log.exception("request.crashed", method=scope["method"], route=_route(scope))
            if response.status:
                raise  # too late to say so; the server cuts the connection, which says enough
            await internal_error(Request(scope))(scope, receive, response.send)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route = _route(scope)
        # Without a status the client went away before it got one; 499 is what nginx calls that.
        self._metrics.end(method=_method(scope), route=route, status=status or 499, seconds=seconds)
        log.info(
            "request.answered",
            method=scope["method"],
            route=route,
            status=status or 499,
            seconds=round(seconds, 4),
        )


class _Response:
    """Passes a response on, with the request's id and `extra` headers, and remembers its status (0: none yet)."""

    def __init__(self, send: Send, request_id: str, extra: Mapping[str, str]) -> None:
        self._send = send
        self._request_id = request_id
        self._extra = extra
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers[HEADER] = self._request_id
            headers.update(self._extra)
        await self._send(message)


def add_headers(request: Request, headers: Mapping[str, str]) -> None:
    """Have the response carry them, whatever the response will be."""
    extra: dict[str, str] = getattr(request.state, _EXTRA)
    extra |= headers


def _request_id(scope: Scope) -> str:
    wanted = Request(scope).headers.get(HEADER, "")
    return wanted if _ACCEPTABLE.fullmatch(wanted) else new_id("req")


def _route(scope: Scope) -> str:
    return getattr(scope.get("route"), "path", UNMATCHED)


def _method(scope: Scope) -> str:
    known = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
    return scope["method"] if scope["method"] in known else "OTHER"
