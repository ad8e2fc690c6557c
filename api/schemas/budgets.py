from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated

from pydantic import Field

from accounting.budget_periods import Period
from accounting.budgets import Standing, Unit
from api.schemas.base import Body, View

Limit = Annotated[
    Decimal,
    Field(
        max_digits=30,
        description="Tokens, or an amount in the price book's currency; a number, or a string of one.",
    ),
]
WarnAt = Annotated[
    list[Annotated[int, Field(ge=1, le=99)]],
    Field(max_length=10, description="Percents of the limit at which somebody is told."),
]


class NewBudget(Body):
    limit: Limit
    unit: Unit = Field(description="`tokens`: billed ones of every stage; `money`: what they cost.")
    period: Period = Field(description="When it is whole again; `total`: never.")
    time_zone: str = Field("UTC", max_length=100, description="IANA name; whose days and months they are.")
    warn_at: WarnAt = Field(default_factory=lambda: [80])
    key_id: str | None = Field(None, max_length=100, description="Only what this key asks for counts.")
    collection_id: str | None = Field(
        None, max_length=100, description="Only work of this collection counts."
    )
    tenant_id: str | None = Field(
        None, max_length=100, description="For the operator: another tenant's. Left out: the caller's."
    )


class BudgetChange(Body):
    limit: Limit | None = Field(None, description="The new limit; left out: as it is.")
    warn_at: WarnAt | None = Field(None, description="The new thresholds; left out: as they are.")


class Budget(View):
    """A budget as it stands now. Amounts have every digit: tokens, or money in `currency`."""

    id: str = Field(description="`bud_…`")
    tenant_id: str = Field(description="Whose work counts.")
    key_id: str | None = Field(description="Of that, only what this key asks for; null: all keys.")
    collection_id: str | None = Field(description="Of that, only this collection's; null: all.")
    unit: Unit = Field(description="What is counted.")
    currency: str = Field(description="Of `money`; empty for `tokens`.")
    period: Period = Field(description="When it is whole again.")
    time_zone: str = Field(description="Whose days and months they are.")
    warn_at: list[int] = Field(description="Percents of the limit at which somebody is told.")
    limit: str = Field(description="At most so much is used in a period.")
    used: str = Field(description="What the ledger has billed in this period.")
    held: str = Field(description="What jobs that have not ended may still use.")
    left: str = Field(description="What a new job may still have.")
    state: str = Field(description="`open`; `warning` from the first threshold; `exhausted`: nothing begins.")
    reset_at: datetime | None = Field(description="When the next period begins; null: never.")
    created_at: datetime = Field(description="When it was made.")

    @classmethod
    def of(cls, standing: Standing) -> Budget:
        row, amount = standing.budget, standing.amount
        return cls(
            id=row.id,
            tenant_id=row.tenant_id,
            key_id=row.key_id,
            collection_id=row.collection_id,
            unit=Unit(row.unit),
            currency=row.currency,
            period=Period(row.period),
            time_zone=row.time_zone,
            warn_at=row.warn_at,
            limit=amount(row.limit),
            used=amount(standing.used),
            held=amount(standing.held),
            left=amount(standing.left),
            state=standing.state,
            reset_at=standing.reset_at,
            created_at=row.created_at,
        )
