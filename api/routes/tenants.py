"""Tenants are the operator's: an administrator of the default tenant."""

from __future__ import annotations

from fastapi import APIRouter
from sqlalchemy.orm import Session

from api.authentication import Administrator
from api.dependencies import OldestFirst, Services
from api.routes.documented import problems
from api.schemas.base import ListOf
from api.schemas.keys import IssuedKey
from api.schemas.tenants import CreatedTenant, NewTenant, Tenant
from core.clock import utc_now
from core.errors import NotPermitted
from core.ids import TenantId
from tenancy.keys import issue_key
from tenancy.principal import Principal, Scope
from tenancy.tenants import (
    DEFAULT_TENANT_NAME,
    create_tenant,
    find_tenant_by_name,
    get_tenant,
    list_tenants,
)

router = APIRouter(prefix="/v1/tenants", tags=["tenants"], responses=problems(401, 403, 422))


@router.post("", status_code=201, name="create_tenant", responses=problems(409))
def add_tenant(body: NewTenant, principal: Administrator, services: Services) -> CreatedTenant:
    """Make a tenant and its first key. Only an administrator of the default tenant may.

    A name is taken once, so a repeated request is refused rather than obeyed twice.
    """
    now = utc_now()
    with services.database.write() as session:
        if not _is_operator(session, principal):
            raise NotPermitted(
                f"Key {principal.key_id} is not of the operator's tenant.",
                remedy=f"Use an admin key of tenant {DEFAULT_TENANT_NAME!r}, or `longleaf tenants`.",
                key_id=principal.key_id,
            )
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
        if not _is_operator(session, principal):
            return ListOf(items=[Tenant.of(get_tenant(session, principal.tenant_id))], next_cursor=None)
        rows = list_tenants(session, page)
    return ListOf(items=[Tenant.of(row) for row in rows.items], next_cursor=rows.next_cursor)


def _is_operator(session: Session, principal: Principal) -> bool:
    default = find_tenant_by_name(session, DEFAULT_TENANT_NAME)
    return default is not None and default.id == principal.tenant_id
