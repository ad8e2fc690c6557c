"""What no route should have to see: bodies beyond any use, and NUL characters in addresses."""

from __future__ import annotations

import re

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problems import problem_of, request_id_of, respond
from core.errors import InvalidInput, LongleafError, TooLarge

MAX_JSON_BYTES = 1024 * 1024
"""The longest question, with every character escaped, is 0.6 MB."""

MAX_EVALUATION_BYTES = 8 * 1024 * 1024
"""A question file of some thousand questions with their evidence."""

MAX_BATCH_BYTES = 32 * 1024 * 1024
"""A file of fifty thousand questions."""

_BATCH = re.compile(r"/v1/collections/[^/]+/batches/?")
_UPLOAD = re.compile(r"/v1/collections/[^/]+/documents/?")


class RequestLimits:
    """ASGI middleware. FastAPI reads JSON bodies whole, before it asks for a key: here they end.

    Uploads have limits of their own (`api/multipart.py`).
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refused = _refuse(scope)
        if refused is not None:
            await _send_problem(refused, scope, receive, send)
            return
        limited = receive if _is_upload(scope) else _limit(receive, _limit_of(scope))
        await self._app(scope, limited, send)


def _refuse(scope: Scope) -> LongleafError | None:
    # PostgreSQL stores no NUL, and no id, name or cursor has one.
    if "\x00" in scope["path"] or b"%00" in scope.get("query_string", b""):
        return InvalidInput("The address holds a NUL character.", remedy="Leave it out.")
    declared = Request(scope).headers.get("content-length", "")
    limit = _limit_of(scope)
    too_long = len(declared) > 18 or (declared.isdecimal() and int(declared) > limit)
    return _too_large(limit) if too_long and not _is_upload(scope) else None


def _limit(receive: Receive, max_bytes: int) -> Receive:
    num_bytes = 0

    async def limited() -> Message:
        nonlocal num_bytes
        message = await receive()
        num_bytes += len(message.get("body", b""))
        if num_bytes > max_bytes:
            raise _too_large(max_bytes)
        return message

    return limited


def _is_upload(scope: Scope) -> bool:
    return scope["method"] == "POST" and _UPLOAD.fullmatch(scope["path"]) is not None


def _limit_of(scope: Scope) -> int:
    if _BATCH.fullmatch(scope["path"]):
        return MAX_BATCH_BYTES
    return MAX_EVALUATION_BYTES if scope["path"] == "/v1/evaluations" else MAX_JSON_BYTES


def _too_large(max_bytes: int) -> TooLarge:
    return TooLarge(
        f"The body is larger than {max_bytes:,} bytes.",
        remedy="Upload long text as a document and ask about it.",
        max_bytes=max_bytes,
    )


async def _send_problem(error: LongleafError, scope: Scope, receive: Receive, send: Send) -> None:
    request = Request(scope)
    document = problem_of(error, instance=request.url.path, request_id=request_id_of(request))
    await respond(document)(scope, receive, send)
