from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from core.clock import utc_now
from storage.models.base import Base


class Budget(Base):
    """How much a tenant, one of its keys or one of its collections may use in a period.

    Amounts are whole numbers: tokens, or what `storage.types.Money` makes of an amount of money.
    `currency` is empty for tokens. `warn_at` are percents of `limit` at which somebody is told.
    """

    __tablename__ = "budgets"

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), index=True)
    key_id: Mapped[str | None] = mapped_column(ForeignKey("api_keys.id"))
    collection_id: Mapped[str | None] = mapped_column(ForeignKey("collections.id"))
    period: Mapped[str]
    unit: Mapped[str]
    currency: Mapped[str] = mapped_column(default="")
    limit: Mapped[int] = mapped_column(BigInteger)
    warn_at: Mapped[list[int]] = mapped_column(default=list)
    time_zone: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)


class BudgetPeriod(Base):
    """What the ledger has for a budget's period, counted in the transactions that write its lines.

    `told_percent` is the highest of the budget's thresholds that was told of.
    """

    __tablename__ = "budget_periods"

    budget_id: Mapped[str] = mapped_column(ForeignKey("budgets.id"), primary_key=True)
    starts_at: Mapped[datetime] = mapped_column(primary_key=True)
    used: Mapped[int] = mapped_column(BigInteger)
    told_percent: Mapped[int] = mapped_column(default=0)


class BudgetHold(Base):
    """What a job that has not ended may still use of a budget; it shrinks by what is charged to the job."""

    __tablename__ = "budget_holds"

    budget_id: Mapped[str] = mapped_column(ForeignKey("budgets.id"), primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True, index=True)
    amount: Mapped[int] = mapped_column(BigInteger)
