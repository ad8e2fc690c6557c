"""The problems that routes document."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from api.problems import MEDIA_TYPE

_WHY = {
    401: "No API key, or one that is wrong, expired or revoked.",
    403: "The key lacks the scope.",
    404: "The tenant has no such object; another tenant's is none.",
    409: "The object is not in a state that allows this.",
    413: "The body is larger than allowed.",
    415: "The body is of another type.",
    422: "The request cannot be understood; `errors` or `detail` names what is wrong.",
    429: "A budget is used up, or requests come too fast: see `Retry-After`.",
    503: "A model or a service behind this one is away.",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """`responses=` of a route that may answer with these problems.

    Who needs a key (401) may be told to come back later (429).
    """
    return {
        status: {
            "description": f"{HTTPStatus(status).phrase}. {_WHY[status]}",
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in (*statuses, *((429,) if 401 in statuses else ()))
    }
