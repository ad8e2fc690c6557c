"""Shapes of the ledger, of prices and of the reconciliation. Amounts are exact decimals, as text."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from pydantic import AwareDatetime, Field

from accounting.corrections import MAX_REASON_LENGTH
from accounting.money import format_amount
from api.schemas.base import Body, FreeText, Name, View
from storage import models


class LedgerEntry(View):
    """What one attempt used of one model for one stage, priced when it was written."""

    id: str = Field(description="`led_…`.")
    created_at: datetime = Field(description="When it was written, and by whose prices.")
    source: str = Field(description="What was paid for: an answer, a batch, an entry that is corrected.")
    attempt: int = Field(description="Which attempt at it.")
    stage: str = Field(description="What the work was for.")
    price_stage: str = Field(description="Whose price it has.")
    model: str = Field(description="What did the work.")
    model_revision: str = Field(description="Its revision.")
    num_tokens: int = Field(description="Negative where a correction takes some back.")
    price_per_million: str = Field(description="The price in force.")
    cost: str = Field(description="At list price, exact; signed as the tokens are.")
    currency: str = Field(description="ISO 4217.")
    billed: bool = Field(description="False: burned, on nobody's bill.")
    reason: str | None = Field(description="Why it was burned, or corrected.")
    corrects_id: str | None = Field(description="The entry that this one corrects.")
    engine_seconds: float = Field(description="Its share of the time that the model's machine was busy.")
    key_id: str | None = Field(description="Who asked for it.")
    job_id: str | None = Field(description="The job that did it.")
    collection_id: str | None = Field(description="Whose documents it was about.")
    document_id: str | None = Field(description="The one document it was about.")

    @classmethod
    def of(cls, row: models.LedgerEntry) -> LedgerEntry:
        plain = {name: getattr(row, name) for name in cls.model_fields}
        amounts = {name: format_amount(plain[name]) for name in ("price_per_million", "cost")}
        return cls(**plain | amounts)


class NewCorrection(Body):
    """Tokens where the count was wrong; a cost alone where the amount is not asked for."""

    entry_id: str = Field(min_length=1, max_length=100, description="The entry to correct.")
    reason: FreeText = Field(min_length=1, max_length=MAX_REASON_LENGTH, description="What was wrong.")
    num_tokens: int = Field(0, description="Added to the count; negative takes back.", gt=-(2**53), lt=2**53)
    cost: Decimal | None = Field(
        None, max_digits=18, decimal_places=10, description="Added to the cost; left out: that of the tokens."
    )


class Price(View):
    """What a stage costs from a moment on."""

    id: str = Field(description="`pri_…`.")
    model: str = Field(description="Registry name, or `*` for every other model.")
    revision: str = Field(description="Of the model; empty: of all its revisions.")
    stage: str = Field(description="The kind of work.")
    price_per_million: str = Field(description="Per million tokens; of `engine_hour`: per hour.")
    currency: str = Field(description="ISO 4217.")
    effective_from: datetime = Field(description="Lines of the ledger from then on are priced by it.")
    is_own: bool = Field(description="It is the tenant's own, which beats the list price.")
    is_announced: bool = Field(description="Announced to the running service; false: the price book's.")

    @classmethod
    def of(cls, row: models.Price) -> Price:
        return cls(
            id=row.id,
            model=row.model,
            revision=row.model_revision,
            stage=row.stage,
            price_per_million=format_amount(row.price),
            currency=row.currency,
            effective_from=row.effective_from,
            is_own=bool(row.tenant_id),
            is_announced=row.announced_by is not None,
        )


class PriceList(View):
    items: list[Price] = Field(description="By model, revision, stage and date.")


class NewPrice(Body):
    """A price to come."""

    model: Name = Field(description="Registry name, or `*` for every model without a price of its own.")
    revision: str = Field("", max_length=200, description="Of the model; empty: of all its revisions.")
    stage: str = Field(max_length=40, description="`embed`, `decode`, …; `engine_hour`: what an hour costs.")
    price_per_million: Decimal = Field(description="Per million tokens; of `engine_hour`: per hour.")
    effective_from: AwareDatetime = Field(description="A moment to come.")
    tenant_id: str | None = Field(None, max_length=100, description="Whose own price; null: everybody's.")
    currency: str | None = Field(None, pattern="^[A-Z]{3}$", description="To be sure; that of all others.")


class CounterView(View):
    """One of the engine's counters against the ledger, in tokens."""

    engine: int = Field(description="What the engines counted.")
    ledger: int = Field(description="What the ledger has: billed, burned and corrected.")
    difference: int = Field(description="`ledger - engine`.")
    unexplained: int = Field(description="What is left of it after `explained`.")
    share: float = Field(description="|unexplained| of what the engines counted.")


class ReconciledModel(View):
    """A model's engines, all together, against its lines."""

    model: str = Field(description="As the ledger calls it.")
    compared_from: datetime | None = Field(description="Begin of what was compared: a sample of counters.")
    compared_to: datetime | None = Field(description="Its end.")
    is_quiet: bool = Field(description="Nothing was under way at either end, so that both must agree.")
    counters: dict[str, CounterView] = Field(description="`prompt`, `cached`, `generation`.")
    billed: dict[str, int] = Field(description="The ledger's tokens that are billed, by counter.")
    burned: dict[str, dict[str, int]] = Field(description="Those that are not, by reason and counter.")
    corrected: dict[str, int] = Field(description="Tokens of corrections, by counter.")
    unsampled: dict[str, int] = Field(
        description="Recorded after the last sample of an engine that then ended: at most so much was counted unseen."
    )
    aborted: dict[str, int] = Field(
        description="At most so much was counted of requests that were broken off after their last token was read."
    )
    num_starts: int = Field(description="Processes of engines whose counters were read.")
    engine_seconds: float = Field(description="Shares of engine time on the ledger.")
    busy_seconds: float = Field(
        description="Time in which the engines were seen to work; at least the truth."
    )
    is_alarming: bool = Field(description="Some counter's share is above the tolerance.")
    notes: list[str] = Field(description="What to know about the figures.")


class Reconciliation(View):
    """The ledger against the engines' own counters."""

    start: datetime | None = Field(description="As asked for.")
    end: datetime = Field(description="As asked for; now at the latest.")
    tolerance: float = Field(description="The share above which a difference alarms.")
    is_alarming: bool = Field(description="At least one model's is.")
    models: list[ReconciledModel] = Field(description="Those with engines, or with lines at their prices.")
