"""Who calls, and whether their key may do this."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy.orm import Session

from api.dependencies import Services
from api.rate_limiting import take_of_limits
from core.clock import utc_now
from core.errors import NotAuthenticated, NotPermitted
from tenancy.keys import authenticate
from tenancy.principal import Principal, Scope, require_scope
from tenancy.tenants import DEFAULT_TENANT_NAME, is_operator

_bearer = HTTPBearer(
    auto_error=False, scheme_name="API key", description="`Authorization: Bearer ll_…`, from `longleaf keys`."
)


def authenticated(
    request: Request,
    services: Services,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> Principal:
    """The caller.

    Raises:
        NotAuthenticated: no key, a wrong one, or one that has expired or was revoked.
        RateLimited: the key, or its tenant, has had its requests of this minute.
    """
    if credentials is None:
        raise NotAuthenticated(
            "The request carries no API key.",
            remedy="Send 'Authorization: Bearer ll_…' with a key that `longleaf keys` issued.",
        )
    with services.database.read() as session:
        principal = authenticate(session, credentials.credentials, now=utc_now())
    take_of_limits(request, services.limiter, principal, "requests")
    return principal


def _allow(*scopes: Scope) -> Callable[..., Principal]:
    # Async, so that it costs no hop to a thread.
    async def permitted(principal: Annotated[Principal, Depends(authenticated)]) -> Principal:
        if len(scopes) == 1:
            require_scope(principal, scopes[0])
        elif not any(principal.has(scope) for scope in scopes):
            names = " or ".join(repr(scope.value) for scope in scopes)
            raise NotPermitted(
                f"Key {principal.key_id} lacks the scope {names}.",
                remedy=f"Use a key with the scope {names}, or 'admin'.",
                key_id=principal.key_id,
                scopes=[scope.value for scope in scopes],
            )
        return principal

    return permitted  # type: ignore[return-value]


Asker = Annotated[Principal, Depends(_allow(Scope.ASK))]
Ingester = Annotated[Principal, Depends(_allow(Scope.INGEST))]
Reader = Annotated[Principal, Depends(_allow(Scope.ASK, Scope.INGEST))]
"""May look at collections, documents and jobs."""
Planner = Annotated[Principal, Depends(_allow(Scope.ASK, Scope.INGEST, Scope.REPORTS))]
"""May look at schedules. Making or changing one takes the scope of what it does."""
Reporter = Annotated[Principal, Depends(_allow(Scope.REPORTS))]
Administrator = Annotated[Principal, Depends(_allow(Scope.ADMIN))]


def require_operator(
    session: Session, principal: Principal, *, for_what: str = "", or_else: str = ""
) -> None:
    """Raises `NotPermitted` unless the caller is an administrator of the default tenant; `or_else` is what others
    may do in its place."""
    if not is_operator(session, principal):
        reason = f", and {for_what}" if for_what else ""
        raise NotPermitted(
            f"Key {principal.key_id} is not of the operator's tenant{reason}.",
            remedy=f"Use an admin key of tenant {DEFAULT_TENANT_NAME!r}{or_else and f', or {or_else}'}.",
            key_id=principal.key_id,
        )


def _operating(principal: Administrator, services: Services) -> Principal:
    with services.database.read() as session:
        require_operator(session, principal)
    return principal


Operator = Annotated[Principal, Depends(_operating)]
"""An administrator of the default tenant."""
