"""Query parameters that a route does not have are refused: one misspelt would otherwise filter nothing."""

from __future__ import annotations

from fastapi import Request, params
from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute

from core.errors import InvalidInput


async def refuse_unknown_parameters(request: Request) -> None:
    """Raises `InvalidInput` with the names that the route does not know, and those that it does."""
    route = request.scope.get("route")
    if not request.query_params or not isinstance(route, APIRoute):
        return
    known = _query_parameters(route)
    unknown = sorted(set(request.query_params) - known)
    if unknown:
        raise InvalidInput(
            f"{request.method} {request.url.path} has no parameter {', '.join(map(repr, unknown))}.",
            remedy=f"It has {', '.join(sorted(known))}." if known else "It has none.",
            parameters=unknown,
        )


def _query_parameters(route: APIRoute) -> frozenset[str]:
    fields = get_flat_params(route.dependant)
    return frozenset(field.alias for field in fields if isinstance(field.field_info, params.Query))
