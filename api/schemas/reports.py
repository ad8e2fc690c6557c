"""Shapes of reports. Amounts are exact decimals, as text."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field

from accounting.calendar import load_zone
from accounting.report_intervals import IntervalName
from accounting.reports import Dimension
from accounting.stored_reports import ReportParameters
from api.schemas.base import Body, Failure, View, failure
from api.schemas.jobs import JobStatus
from core.html.page import ReportLanguage
from storage import models


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
    reused_tokens: int = Field(description="Of uploaded passages that had been embedded before.")
    reused_cost: str = Field(description="What embedding them again would have cost.")
    saved: str = Field(description="`uncached_cost - cost + reused_cost`.")


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


def _known_zone(name: str) -> str:
    return load_zone(name).key


class NewCostReport(Body):
    """A report to be made and kept, over an interval that is named."""

    interval: IntervalName = Field(
        description="The day, week from Monday or month that was over last, or the month until now."
    )
    group_by: list[Dimension] = Field(
        default=[Dimension.DAY, Dimension.STAGE], max_length=10, description="Dimensions, as in any report."
    )
    time_zone: Annotated[str, AfterValidator(_known_zone)] = Field(
        "UTC", max_length=100, description="IANA name; whose days, weeks and months they are."
    )
    language: ReportLanguage = Field("en", description="Of the page's own words.")

    def parameters(self) -> ReportParameters:
        group_by = [dimension.value for dimension in self.group_by]
        return ReportParameters(self.interval, group_by, self.time_zone, self.language)

    def order(self) -> dict[str, Any]:
        """As a schedule keeps it."""
        return self.parameters().as_json()


class StoredReport(View):
    """A report that is kept as it was made; `status` is its job's."""

    id: str = Field(description="`rep_…`")
    job_id: str = Field(description="The job that makes it.")
    status: JobStatus = Field(description="`succeeded`: it can be read.")
    parameters: dict[str, Any] = Field(description="As it was asked for.")
    start: datetime = Field(description="First instant that counts.")
    end: datetime = Field(description="First instant that no longer counts.")
    error: Failure | None = Field(description="Why it failed; null otherwise.")
    created_at: datetime = Field(description="When it was asked for.")
    finished_at: datetime | None = Field(description="When it ended.")

    @classmethod
    def of(cls, row: models.StoredReport, job: models.Job) -> StoredReport:
        return cls(**_described(row, job))


class StoredReportContent(View):
    costs: CostReport = Field(description="As `GET /v1/reports/costs` had it.")
    top: TopCosts = Field(description="As `GET /v1/reports/costs/top` had it.")
    savings: Savings = Field(description="As `GET /v1/reports/savings` had it.")


class FullStoredReport(StoredReport):
    content: StoredReportContent | None = Field(description="Null until it is made.")

    @classmethod
    def of(cls, row: models.StoredReport, job: models.Job) -> FullStoredReport:
        content = None if row.content is None else StoredReportContent.model_validate(row.content)
        return cls(**_described(row, job), content=content)


def _described(row: models.StoredReport, job: models.Job) -> dict[str, Any]:
    return {
        "id": row.id,
        "job_id": row.job_id,
        "status": job.status,
        "parameters": row.parameters,
        "start": row.start_at,
        "end": row.end_at,
        "error": failure(job.error_code, job.error_detail),
        "created_at": row.created_at,
        "finished_at": row.finished_at or job.finished_at,
    }
