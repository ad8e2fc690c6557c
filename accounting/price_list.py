"""The prices that concern a tenant, as a list to show."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from accounting.price_book import LIST_PRICE
from accounting.price_table import prices_in_force
from accounting.stages import Rate
from core.ids import TenantId
from storage.models import Price


def list_prices(
    session: Session, tenant_id: TenantId, *, at: datetime | None = None, with_rates: bool = False
) -> Sequence[Price]:
    """List prices and the tenant's own (which beat them), by model, revision, stage and date; no other's.

    Args:
        at: only what applies at that moment; left out: of all dates.
        with_rates: also what machines cost an hour, which is the operator's to know.
    """
    rows: Sequence[Price]
    if at is not None:
        rows = prices_in_force(session, tenant_id, at).applicable()
    else:
        rows = session.scalars(select(Price).where(Price.tenant_id.in_([LIST_PRICE, tenant_id]))).all()
    rates = {rate.value for rate in Rate}
    shown = [row for row in rows if with_rates or row.stage not in rates]
    return sorted(
        shown, key=lambda row: (row.model, row.model_revision, row.stage, row.effective_from, row.tenant_id)
    )
