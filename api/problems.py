"""Errors as RFC 9457 problem details. The only table from errors to HTTP statuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DataError, OperationalError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from core import errors
from core.errors import InvalidInput, LongleafError

log = structlog.get_logger()

MEDIA_TYPE = "application/problem+json"

STATUS: Mapping[type[LongleafError], int] = {
    errors.LongleafError: 500,
    errors.InvalidInput: 422,
    errors.TooLarge: 413,
    errors.UnsupportedFormat: 415,
    errors.NotAuthenticated: 401,
    errors.NotPermitted: 403,
    errors.NotFound: 404,
    errors.Conflict: 409,
    # draft-ietf-httpapi-idempotency-key-header: 422 for another request under a used key.
    errors.IdempotencyMismatch: 422,
    errors.BudgetExceeded: 429,
    errors.RateLimited: 429,
    errors.JobCancelled: 409,
    errors.DeadlineExceeded: 504,
    errors.ModelUnavailable: 503,
    errors.EngineIncapable: 501,
    errors.DatabaseUnavailable: 503,
    errors.OutputInvalid: 502,
    errors.DeliveryFailed: 502,
}
"""An error that is not listed has its nearest ancestor's status."""

RETRY_AFTER_SECONDS: Mapping[type[LongleafError], int] = {
    errors.EngineUnavailable: 5,
    errors.EngineOverloaded: 2,
    errors.DatabaseUnavailable: 2,
}

_RESERVED = frozenset({"type", "title", "status", "detail", "code", "remedy", "instance", "request_id"})

_PASSING = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_CANTOPEN")
"""Errors of a database that may answer the next time."""

_OF_JOBS_ONLY = {"worker_lost": (500, "The worker died while running the job")}


def status_of(kind: type[LongleafError]) -> int:
    """The HTTP status of an error."""
    return next(STATUS[ancestor] for ancestor in kind.__mro__ if ancestor in STATUS)


def problem_of(error: LongleafError, *, instance: str, request_id: str) -> dict[str, Any]:
    """The problem document of an error; its context adds members."""
    context = {name: _plain(value) for name, value in error.context.items() if name not in _RESERVED}
    return _document(
        status=status_of(type(error)),
        code=error.code,
        title=error.title,
        detail=error.detail,
        remedy=error.remedy,
        instance=instance,
        request_id=request_id,
        **context,
    )


def status_of_code(code: str) -> int:
    """The HTTP status of an error that is known by the code that a job's row keeps."""
    return _known_code(code)[0]


def problem_of_job(
    code: str, detail: str, *, instance: str, request_id: str, **context: object
) -> dict[str, Any]:
    """The problem document of a failed job, from the code and detail that its row keeps."""
    status, title = _known_code(code)
    return _document(
        status=status,
        code=code,
        title=title,
        detail=detail,
        remedy="",
        instance=instance,
        request_id=request_id,
        **context,
    )


def retry_headers(code: str) -> dict[str, str]:
    """`Retry-After` of a failed job's code, where trying again later may help."""
    seconds = {kind.code: seconds for kind, seconds in RETRY_AFTER_SECONDS.items()}.get(code)
    return {} if seconds is None else {"Retry-After": str(seconds)}


def request_id_of(request: Request) -> str:
    return str(getattr(request.state, "request_id", ""))


def respond(document: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The response for a problem document."""
    extra = dict(headers or {})
    if document["status"] == 413:
        # The rest of the body is not read, so the connection cannot carry another request.
        extra["Connection"] = "close"
    return JSONResponse(dict(document), document["status"], extra, MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Have every error of `app` answered as a problem."""
    app.add_exception_handler(LongleafError, _on_longleaf_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(DataError, _on_data_error)
    app.add_exception_handler(OperationalError, _on_database_away)


def internal_error(request: Request) -> JSONResponse:
    """What a caller sees of a fault of ours: the id under which the logs have it."""
    request_id = request_id_of(request)
    error = LongleafError(
        "The server failed to handle the request.",
        remedy=f"Look for request {request_id} in the server's log.",
    )
    return respond(problem_of(error, instance=request.url.path, request_id=request_id))


def _on_longleaf_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, LongleafError)
    document = problem_of(error, instance=request.url.path, request_id=request_id_of(request))
    return respond(document, dict(_headers(request, error)))


def _headers(request: Request, error: LongleafError) -> Iterator[tuple[str, str]]:
    if isinstance(error, errors.NotAuthenticated):
        # RFC 6750: the error parameter only where a token was presented.
        wrong = ', error="invalid_token"' if "authorization" in request.headers else ""
        yield "WWW-Authenticate", f'Bearer realm="longleaf"{wrong}'
    for kind, seconds in RETRY_AFTER_SECONDS.items():
        if isinstance(error, kind):
            yield "Retry-After", str(seconds)
    if (told := error.context.get("retry_after_seconds")) is not None:
        yield "Retry-After", str(told)


def _on_invalid_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    faults = [_fault(found) for found in error.errors()]
    detail = "; ".join(f"{fault['field']}: {fault['problem']}" for fault in faults)
    document = problem_of(
        InvalidInput(
            f"{detail}.", remedy="Mend what is named; every field is described at /docs.", errors=faults
        ),
        instance=request.url.path,
        request_id=request_id_of(request),
    )
    return respond(document)


def _fault(found: Mapping[str, Any]) -> dict[str, str]:
    where = [str(part) for part in found["loc"]]
    if found["type"] == "extra_forbidden":
        return {"field": ".".join(where), "problem": "there is no such field"}
    if found["type"] == "json_invalid":
        position = where[-1] if len(where) > 1 else "0"
        return {"field": "body", "problem": f"it is not JSON (at character {position})"}
    if where == ["body"] and found["type"] in ("model_attributes_type", "dict_type", "missing"):
        return {"field": "body", "problem": "it must be an object, with Content-Type: application/json"}
    if found["type"] == "missing":
        return {"field": ".".join(where), "problem": "it is missing"}
    message = str(found["msg"]).removeprefix("Value error, ")
    return {"field": ".".join(where), "problem": message[:1].lower() + message[1:]}


def _on_http_exception(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    # FastAPI wraps what is raised while it reads a body; the cause says what it was.
    if isinstance(error.__cause__, LongleafError):
        return _on_longleaf_error(request, error.__cause__)
    if error.status_code == 400:
        unreadable = InvalidInput(
            "The body cannot be read as JSON in UTF-8.", remedy="Mend it and send it again."
        )
        return _on_longleaf_error(request, unreadable)
    code, detail, remedy = _explain(request, error)
    document = _document(
        status=error.status_code,
        code=code,
        title=HTTPStatus(error.status_code).phrase,
        detail=detail,
        remedy=remedy,
        instance=request.url.path,
        request_id=request_id_of(request),
    )
    headers = {"Allow": _allowed(request)} if error.status_code == 405 else error.headers
    return respond(document, headers)


def _allowed(request: Request) -> str:
    """The methods of every route with this path; Starlette names those of the first one only."""
    methods: set[str] = set()
    for route in request.app.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            methods |= getattr(route, "methods", None) or set()
    if "GET" in methods:
        methods.add("HEAD")
    return ", ".join(sorted(methods))


def _explain(request: Request, error: HTTPException) -> tuple[str, str, str]:
    if error.status_code == 404:
        return "no_such_route", f"There is nothing at {request.url.path}.", "The routes are listed at /docs."
    if error.status_code == 405:
        detail = f"{request.method} is not possible at {request.url.path}."
        return "method_not_allowed", detail, "The Allow header lists what is."
    return "http_error", str(error.detail), ""


def _on_data_error(request: Request, error: Exception) -> JSONResponse:
    refused = InvalidInput(
        "A value of the request cannot be stored or looked up.",
        remedy="Leave out NUL characters and numbers beyond 64 bits.",
    )
    return _on_longleaf_error(request, refused)


def _document(*, code: str, **members: Any) -> dict[str, Any]:
    return {"type": f"urn:longleaf:problem:{code}", "code": code, **members}


def _plain(value: object) -> object:
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    return str(value)


def _known_code(code: str) -> tuple[int, str]:
    return _known_codes().get(code, (500, LongleafError.title))


def _known_codes() -> dict[str, tuple[int, str]]:
    known = {kind.code: (status_of(kind), kind.title) for kind in _tree(LongleafError)}
    return known | _OF_JOBS_ONLY


def _tree(kind: type[LongleafError]) -> Iterator[type[LongleafError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _tree(below)


def _on_database_away(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, OperationalError)
    # SQLite says so of a table that is not there too: that is a fault of ours, and lasts.
    name = getattr(error.orig, "sqlite_errorname", _PASSING[0])
    if not name.startswith(_PASSING):
        raise error
    log.warning("request.database_away", error=str(error))
    away = errors.DatabaseUnavailable(
        "The database went away while the request was handled, or is locked for too long.",
        remedy="Send the request again, with the Idempotency-Key that it had: it may have been done.",
    )
    return _on_longleaf_error(request, away)
