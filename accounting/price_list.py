"""The prices that concern a tenant, as a list to show."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from accounting.price_book import LIST_PRICE
from core.ids import TenantId
from storage.models import Price


def list_prices(session: Session, tenant_id: TenantId) -> Sequence[Price]:
    """List prices and the tenant's own (which beat them), by model, stage and date; no other's."""
    return session.scalars(
        select(Price)
        .where(Price.tenant_id.in_([LIST_PRICE, tenant_id]))
        .order_by(Price.model, Price.stage, Price.effective_from, Price.tenant_id)
    ).all()
