"""Entries of the ledger, to look at; `accounting/` writes them."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.errors import NotFound
from core.ids import TenantId
from storage.models import LedgerEntry
from storage.paging import Page, PageRequest, paginate


class LedgerEntries:
    """A tenant's."""

    def __init__(self, session: Session, tenant_id: TenantId) -> None:
        self._session = session
        self._tenant_id = tenant_id

    def list_page(
        self, page: PageRequest, *, source: str | None = None, job_id: str | None = None
    ) -> Page[LedgerEntry]:
        """All, or those of a source or a job."""
        query = select(LedgerEntry).where(LedgerEntry.tenant_id == self._tenant_id)
        if source is not None:
            query = query.where(LedgerEntry.source == source)
        if job_id is not None:
            query = query.where(LedgerEntry.job_id == job_id)
        return paginate(self._session, query, LedgerEntry, page)


def get_entry(session: Session, entry_id: str) -> LedgerEntry:
    """Anybody's entry, for the operator. Raises `NotFound` for an unknown id."""
    found = session.get(LedgerEntry, entry_id)
    if found is None:
        raise NotFound(f"There is no ledger entry {entry_id}.", remedy="List them with GET /v1/ledger.")
    return found
