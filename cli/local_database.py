"""The operator's way to tenants and keys: straight to the database of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.orm import Session

from core.errors import Misconfigured, NotFound
from core.ids import TenantId
from core.settings import Settings
from storage.database import Database
from storage.migrate import pending
from storage.models import Tenant
from storage.paging import MAX_LIMIT, PageRequest
from tenancy.keys import Key, list_keys
from tenancy.tenants import DEFAULT_TENANT_NAME, find_tenant_by_name, get_tenant, list_tenants


@contextmanager
def local_database(settings: Settings) -> Iterator[Database]:
    """The database, migrated.

    Raises:
        Misconfigured: it does not answer, or migrations are pending.
    """
    database = Database(settings.resolved_database_url)
    try:
        database.ping()
        if pending(database):
            raise Misconfigured(
                f"The database {database.url.render_as_string(hide_password=True)} is not migrated.",
                remedy="`longleaf up` does it, or `longleaf doctor --repair`.",
            )
        yield database
    finally:
        database.dispose()


def resolve_tenant(session: Session, name: str) -> Tenant:
    """A tenant by name or id; empty: the default one.

    Raises:
        NotFound: there is none.
    """
    wanted = name or DEFAULT_TENANT_NAME
    if wanted.startswith("ten_"):
        return get_tenant(session, TenantId(wanted))
    found = find_tenant_by_name(session, wanted)
    if found is None:
        raise NotFound(f"There is no tenant named {wanted!r}.", remedy="`longleaf tenants list` shows them.")
    return found


def all_tenants(session: Session) -> Iterator[Tenant]:
    """Every tenant, oldest first."""
    cursor: str | None = None
    while True:
        page = list_tenants(session, PageRequest(limit=MAX_LIMIT, cursor=cursor))
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return


def all_keys(session: Session, tenant_id: TenantId) -> Iterator[Key]:
    """Every key of a tenant, oldest first."""
    cursor: str | None = None
    while True:
        page = list_keys(session, tenant_id, PageRequest(limit=MAX_LIMIT, cursor=cursor))
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return
