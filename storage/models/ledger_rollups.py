from __future__ import annotations

from decimal import Decimal

from sqlalchemy import BigInteger, ForeignKey, Index, Integer
from sqlalchemy.orm import Mapped, mapped_column

from storage.models.base import Base


class LedgerRollup(Base):
    """Sums of a tenant's ledger lines of one hour that agree in the columns of a grain.

    Derived from the ledger and rebuildable from it. `grain` names which columns those are
    (`accounting/rollups.py`); the others are NULL. `start` is the hour's first second, counted from 1970.
    """

    __tablename__ = "ledger_rollups"
    __table_args__ = (Index("ix_ledger_rollups_report", "tenant_id", "grain", "start"),)

    id: Mapped[int] = mapped_column(
        BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True
    )
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    grain: Mapped[str]
    start: Mapped[int] = mapped_column(BigInteger)
    collection_id: Mapped[str | None]
    document_id: Mapped[str | None]
    key_id: Mapped[str | None]
    job_id: Mapped[str | None]
    job_kind: Mapped[str | None]
    schedule_id: Mapped[str | None]
    source: Mapped[str | None]
    stage: Mapped[str | None]
    price_stage: Mapped[str | None]
    model: Mapped[str | None]
    model_revision: Mapped[str | None]
    price_per_million: Mapped[Decimal | None]
    billed: Mapped[bool]
    is_correction: Mapped[bool]
    currency: Mapped[str]
    num_lines: Mapped[int] = mapped_column(BigInteger)
    num_tokens: Mapped[int] = mapped_column(BigInteger)
    cost: Mapped[Decimal]
    engine_cost: Mapped[Decimal | None]
