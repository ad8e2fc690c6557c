"""HEAD wherever GET is possible (RFC 9110 §9.3.2)."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send


class HeadRequests:
    """ASGI middleware: routes see a GET, and the server leaves the body out.

    FastAPI, unlike Starlette, gives a GET route no HEAD of its own.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "HEAD":
            # Changed in a copy, since by its own the server knows that no body may follow.
            scope = {**scope, "method": "GET"}
        await self._app(scope, receive, send)
