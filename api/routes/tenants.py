"""Tenants are the operator's: an administrator of the default tenant."""

from __future__ import annotations

from fastapi import APIRouter

from api.authentication import Administrator, Operator
from api.dependencies import OldestFirst, Services
from api.routes.documented import problems
from api.schemas.base import ListOf
from api.schemas.keys import IssuedKey
from api.schemas.tenants import CreatedTenant, NewTenant, Tenant
from core.clock import utc_now
from core.ids import TenantId
from tenancy.keys import issue_key
from tenancy.principal import Scope
from tenancy.tenants import (
    create_tenant,
    get_tenant,
    is_operator,
    list_tenants,
)

router = APIRouter(prefix="/v1/tenants", tags=["tenants"], responses=problems(401, 403, 422))


@router.post("", status_code=201, name="create_tenant", responses=problems(409))
def add_tenant(body: NewTenant, _principal: Operator, services: Services) -> CreatedTenant:
    """Make a tenant and its first key. Only an administrator of the default tenant may.

    A name is taken once, so a repeated request is refused rather than obeyed twice.
    """
    now = utc_now()
    with services.database.write() as session:
        tenant = create_tenant(session, name=body.name, now=now)
        issued = issue_key(session, TenantId(tenant.id), name="admin", scopes=[Scope.ADMIN], now=now)
    return CreatedTenant(
        id=tenant.id,
        name=tenant.name,
        created_at=tenant.created_at,
        admin_key=IssuedKey.issued(issued.key, issued.token),
    )


@router.get("", name="list_tenants")
def show_tenants(page: OldestFirst, principal: Administrator, services: Services) -> ListOf[Tenant]:
    """All tenants, oldest first, for the operator; for any other administrator only their own."""
    with services.database.read() as session:
        if not is_operator(session, principal):
            return ListOf(items=[Tenant.of(get_tenant(session, principal.tenant_id))], next_cursor=None)
        rows = list_tenants(session, page)
    return ListOf(items=[Tenant.of(row) for row in rows.items], next_cursor=rows.next_cursor)
