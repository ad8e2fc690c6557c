"""Shapes of reports. Amounts are exact decimals, as text."""

from __future__ import annotations

from datetime import datetime

from pydantic import ConfigDict, Field

from api.schemas.base import View


class Amounts(View):
    num_tokens: int = Field(description="Tokens billed.")
    cost: str = Field(description="What they cost.")
    burned_tokens: int = Field(description="Tokens that failed attempts burned: not billed.")
    burned_cost: str = Field(description="What those would have cost.")
    engine_cost: str | None = Field(
        description="What the machine cost while it worked on all of them; null where no rate was in force."
    )
    margin: str | None = Field(description="`cost - engine_cost`.")


class TotalAmounts(Amounts):
    invoice_total: str = Field(description="`cost`, rounded once to the currency's minor unit.")


class CostRow(Amounts):
    """One group; beside the amounts it has a member per dimension of `group_by`."""

    model_config = ConfigDict(extra="allow")


class _Interval(View):
    start: datetime | None = Field(description="First instant that counts; null: from the beginning.")
    end: datetime | None = Field(description="First instant that no longer counts; null: until now.")
    time_zone: str = Field(description="Whose days and months they are.")
    currency: str = Field(description="ISO 4217; empty while there are no prices.")


class CostReport(_Interval):
    group_by: list[str] = Field(description="The dimensions asked for.")
    rows: list[CostRow] = Field(description="Sorted by their dimensions.")
    total: TotalAmounts = Field(description="The exact sum of the rows.")


class CostlyThing(Amounts):
    id: str = Field(description="Of the document, or of the answer.")
    text: str = Field(description="The document's name, or what was asked.")


class TopCosts(_Interval):
    documents: list[CostlyThing] = Field(description="Read, embedded, computed beforehand; dearest first.")
    questions: list[CostlyThing] = Field(description="With all their stages; dearest first.")


class Savings(_Interval):
    cached_tokens: int = Field(description="Billed tokens of prompts that the engine had computed before.")
    uncached_cost: str = Field(description="What they would have cost uncached, at the prices of their time.")
    cost: str = Field(description="What was billed for them.")
    saved: str = Field(description="`uncached_cost - cost`.")


class InvoiceLine(View):
    is_correction: bool = Field(description="It corrects lines of before, with signs.")
    model: str = Field(description="Registry name.")
    model_revision: str = Field(description="Which of its revisions.")
    stage: str = Field(description="What the work was for.")
    price_stage: str = Field(description="Whose price it has.")
    price_per_million: str = Field(description="Unit price.")
    num_tokens: int = Field(description="How many.")
    amount: str = Field(description="Exact.")


class Invoice(_Interval):
    number: str = Field(description="Month and beginning of the digest.")
    digest: str = Field(description="SHA-256 of all that is owed, by whom and for when.")
    is_final: bool = Field(description="The month is over: number and amounts stay.")
    tenant_id: str = Field(description="Who owes it.")
    month: str = Field(description="Such as `2026-11`.")
    lines: list[InvoiceLine] = Field(description="By model, stage and price.")
    subtotal: str = Field(description="The exact sum of the lines.")
    rounding: str = Field(description="`total - subtotal`.")
    total: str = Field(description="In the currency's minor units, rounded once, half to even.")
    burned_tokens: int = Field(description="What failed attempts burned: on no line.")
    burned_cost: str = Field(description="What it would have cost.")


class UsageSummary(_Interval):
    prompt_tokens: int = Field(description="Tokens of prompts, cached ones included.")
    cached_tokens: int = Field(description="Of those, how many the engine had computed before.")
    completion_tokens: int = Field(description="Tokens written.")
    cached_share: float | None = Field(description="`cached_tokens / prompt_tokens`; null without prompts.")
    stages: dict[str, Amounts] = Field(description="By stage: `embed`, `prefill_cached`, `decode`, …")
    total: Amounts = Field(description="The exact sum of the stages.")
