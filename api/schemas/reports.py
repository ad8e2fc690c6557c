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


class UsageSummary(_Interval):
    prompt_tokens: int = Field(description="Tokens of prompts, cached ones included.")
    cached_tokens: int = Field(description="Of those, how many the engine had computed before.")
    completion_tokens: int = Field(description="Tokens written.")
    cached_share: float | None = Field(description="`cached_tokens / prompt_tokens`; null without prompts.")
    stages: dict[str, Amounts] = Field(description="By stage: `embed`, `prefill_cached`, `decode`, …")
    total: Amounts = Field(description="The exact sum of the stages.")
