"""Tenants, whose data never meet."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from core.errors import Conflict, InvalidInput, NotFound
from core.ids import TenantId, new_id
from storage.insertion import insert_if_absent
from storage.models import Tenant
from storage.paging import Page, PageRequest, paginate
from tenancy.principal import Principal, Scope

DEFAULT_TENANT_NAME = "default"
MAX_NAME_LENGTH = 200


def create_tenant(session: Session, *, name: str, now: datetime) -> Tenant:
    """A new tenant, without keys.

    Raises:
        InvalidInput: no name, or one too long.
        Conflict: the name is taken; the transaction must be given up.
    """
    if not name.strip() or len(name) > MAX_NAME_LENGTH or not name.isprintable():
        raise InvalidInput(f"A tenant's name must have 1 to {MAX_NAME_LENGTH} printable characters.")
    tenant = Tenant(id=new_id("ten"), name=name, created_at=now)
    session.add(tenant)
    try:
        session.flush()
    except IntegrityError as error:
        raise Conflict(
            f"A tenant named {name!r} exists already.", remedy="Choose another name.", name=name
        ) from error
    return tenant


def get_tenant(session: Session, tenant_id: TenantId) -> Tenant:
    """Raises `NotFound` for an unknown id."""
    found = session.get(Tenant, tenant_id)
    if found is None:
        raise NotFound(
            f"There is no tenant {tenant_id}.",
            remedy="List them with `longleaf tenants list`.",
            tenant_id=tenant_id,
        )
    return found


def find_tenant_by_name(session: Session, name: str) -> Tenant | None:
    return session.scalar(select(Tenant).where(Tenant.name == name))


def is_operator(session: Session, principal: Principal) -> bool:
    """Whether the caller is an administrator of the default tenant, to whom the house belongs."""
    return principal.has(Scope.ADMIN) and is_operators_tenant(session, principal.tenant_id)


def is_operators_tenant(session: Session, tenant_id: TenantId) -> bool:
    """Whether it is the default tenant, to whom the house belongs."""
    default = find_tenant_by_name(session, DEFAULT_TENANT_NAME)
    return default is not None and default.id == tenant_id


def list_tenants(session: Session, page: PageRequest) -> Page[Tenant]:
    """All tenants, oldest first."""
    return paginate(session, select(Tenant), Tenant, page)


def list_tenant_ids(session: Session) -> list[TenantId]:
    """Of all tenants."""
    return [TenantId(tenant_id) for tenant_id in session.scalars(select(Tenant.id).order_by(Tenant.id))]


def ensure_default_tenant(session: Session, *, now: datetime) -> Tenant:
    """The tenant of the embedded shape, made on the first call, whoever calls at once."""
    values = {"id": new_id("ten"), "name": DEFAULT_TENANT_NAME, "created_at": now}
    insert_if_absent(session, Tenant, values)
    return session.scalars(select(Tenant).where(Tenant.name == DEFAULT_TENANT_NAME)).one()
