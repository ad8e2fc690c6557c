"""The `prices` table asked what holds at a moment.

The tenant's own price comes before the list's. Of one owner's the most specific applies: that of the
model's revision, of the model, of any model; and of those the one that began last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from sqlalchemy import select
from sqlalchemy.orm import Session

from accounting.price_book import ANY_MODEL, LIST_PRICE
from accounting.stages import Rate, Stage
from core.errors import Misconfigured
from core.ids import TenantId
from storage.models import Price


@dataclass(frozen=True, slots=True)
class AppliedPrice:
    """The price in force at a moment."""

    price_per_million: Decimal
    currency: str
    effective_from: datetime


class PricesInForce:
    """A tenant's prices of some models at one moment."""

    def __init__(self, rows: Iterable[Price], tenant_id: TenantId, moment: datetime) -> None:
        """`rows` by the date they began, none of them after `moment`."""
        self._latest = {(row.tenant_id, row.model, row.model_revision, row.stage): row for row in rows}
        self._tenant_id = tenant_id
        self._moment = moment

    def get(self, model: str, stage: Stage, *, revision: str = "") -> AppliedPrice:
        """Raises `Misconfigured` where no price is in force."""
        row = self._find(model, revision, stage)
        if row is not None:
            return AppliedPrice(row.price, row.currency, row.effective_from)
        raise Misconfigured(
            f"No price for {stage.value} of model {model!r} is in force at {self._moment.isoformat()}.",
            remedy='Give the price book an entry for model = "*" with an earlier effective_from.',
            model=model,
            stage=stage.value,
        )

    def find_hourly_rate(self, model: str, *, revision: str = "") -> Decimal | None:
        """What an hour of the machine costs that the model runs on."""
        row = self._find(model, revision, Rate.ENGINE_HOUR)
        return None if row is None else row.price

    def applicable(self) -> list[Price]:
        """Rows that some model, revision and stage is priced by, in no particular order."""
        own = {
            (model, revision, stage)
            for owner, model, revision, stage in self._latest
            if owner == self._tenant_id
        }

        def is_beaten(row: Price) -> bool:
            specificity = ((row.model, row.model_revision), (row.model, ""), (ANY_MODEL, ""))
            return any((model, revision, row.stage) in own for model, revision in specificity)

        return [row for row in self._latest.values() if row.tenant_id != LIST_PRICE or not is_beaten(row)]

    def _find(self, model: str, revision: str, stage: Stage | Rate) -> Price | None:
        specificity = dict.fromkeys([(model, revision), (model, ""), (ANY_MODEL, "")])
        keys = [
            (owner, *named, stage.value) for owner in (self._tenant_id, LIST_PRICE) for named in specificity
        ]
        return next((self._latest[key] for key in keys if key in self._latest), None)


def prices_in_force(
    session: Session, tenant_id: TenantId, moment: datetime, *, models: Iterable[str] | None = None
) -> PricesInForce:
    """The tenant's prices at the moment; `models`: of these and of any model only."""
    query = (
        select(Price)
        .where(Price.tenant_id.in_([LIST_PRICE, tenant_id]), Price.effective_from <= moment)
        .order_by(Price.effective_from)
    )
    if models is not None:
        query = query.where(Price.model.in_({ANY_MODEL, *models}))
    return PricesInForce(session.scalars(query), tenant_id, moment)


def price_at(
    session: Session, model: str, stage: Stage, moment: datetime, *, tenant_id: TenantId, revision: str = ""
) -> AppliedPrice:
    """The price in force.

    Raises:
        Misconfigured: none was.
    """
    return prices_in_force(session, tenant_id, moment, models=[model]).get(model, stage, revision=revision)


def prices_at(
    session: Session,
    wanted: Sequence[tuple[str, Stage]],
    moment: datetime,
    *,
    tenant_id: TenantId,
) -> dict[tuple[str, Stage], AppliedPrice]:
    """`price_at` for many (model, stage) pairs in one query."""
    prices = prices_in_force(session, tenant_id, moment, models={model for model, _ in wanted})
    return {(model, stage): prices.get(model, stage) for model, stage in wanted}


def find_currency(session: Session) -> str:
    """The currency of the price table; empty while the table is."""
    return session.scalar(select(Price.currency).limit(1)) or ""
