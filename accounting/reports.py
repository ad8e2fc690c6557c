"""What was consumed and what it cost, summed by whatever one wants to know it by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum

from sqlalchemy.orm import Session

from accounting.calendar import Interval, date_of_day, parse_interval
from accounting.ledger_sums import Amounts, LedgerSum, Period, sum_ledger
from accounting.money import invoice_total
from accounting.price_table import find_currency
from accounting.stages import Stage
from core.errors import Conflict, InvalidInput
from core.ids import TenantId


class Dimension(StrEnum):
    """What a report can be grouped by."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    STAGE = "stage"
    MODEL = "model"
    COLLECTION = "collection"
    DOCUMENT = "document"
    KEY = "key"
    JOB = "job"
    JOB_KIND = "job_kind"
    SCHEDULE = "schedule"
    TENANT = "tenant"


_COLUMNS = {
    Dimension.STAGE: "stage",
    Dimension.MODEL: "model",
    Dimension.COLLECTION: "collection_id",
    Dimension.DOCUMENT: "document_id",
    Dimension.KEY: "key_id",
    Dimension.JOB: "job_id",
    Dimension.JOB_KIND: "job_kind",
    Dimension.SCHEDULE: "schedule_id",
    Dimension.TENANT: "tenant_id",
}
_DATES = {Dimension.DAY: "%Y-%m-%d", Dimension.WEEK: "%G-W%V", Dimension.MONTH: "%Y-%m"}


@dataclass(frozen=True, slots=True)
class CostRow:
    """One group. `dimensions` has a value for each of the report's; None: lines that have none."""

    dimensions: Mapping[Dimension, str | None]
    amounts: Amounts


@dataclass(frozen=True, slots=True)
class CostReport:
    """Rows sorted by their dimensions, and their exact total."""

    group_by: tuple[Dimension, ...]
    interval: Interval
    currency: str
    rows: tuple[CostRow, ...]
    total: Amounts

    @property
    def invoice_total(self) -> Decimal:
        """What an invoice over all of it would say."""
        return invoice_total(self.total.cost, self.currency)


@dataclass(frozen=True, slots=True)
class UsageSummary:
    """Tokens and cost by stage. `cached_share` is of the prompt's tokens; None without any."""

    interval: Interval
    currency: str
    stages: Mapping[Stage, Amounts]
    total: Amounts
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int

    @property
    def cached_share(self) -> float | None:
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else None


def cost_report(
    session: Session,
    tenant_id: TenantId | None,
    *,
    group_by: Sequence[str] = (),
    start: date | datetime | None = None,
    end: date | datetime | None = None,
    time_zone: str = "UTC",
    use_rollups: bool = True,
    with_engine_cost: bool = True,
) -> CostReport:
    """Costs of a tenant (None: of all), grouped by the dimensions named.

    Args:
        start: first instant that counts; a date is its first instant in `time_zone`.
        end: first instant that no longer counts.
        time_zone: IANA name; whose days, weeks (of ISO 8601) and months they are.
        use_rollups: False reads every line; no figure depends on it.
        with_engine_cost: False leaves out what the machine cost, and with it the margin: they are the
            operator's.

    Raises:
        InvalidInput: unknown dimension or time zone, or an interval that ends before it starts.
        Conflict: lines of two currencies are in the interval.
    """
    dimensions = parse_dimensions(group_by)
    interval = parse_interval(start, end, time_zone)
    sums = sum_ledger(
        session,
        tenant_id,
        interval,
        columns=[_COLUMNS[dimension] for dimension in dimensions if dimension in _COLUMNS],
        period=_period(dimensions),
        use_rollups=use_rollups,
    )
    currency = one_currency(sums) or find_currency(session)
    groups: dict[tuple[str | None, ...], Amounts] = {}
    for line in sums:
        key = tuple(_value(line, dimension) for dimension in dimensions)
        amounts = line.amounts if with_engine_cost else line.amounts.without_engine_cost()
        groups[key] = groups.get(key, Amounts()) + amounts
    rows = tuple(
        CostRow(dict(zip(dimensions, key, strict=True)), groups[key]) for key in sorted(groups, key=_order)
    )
    return CostReport(dimensions, interval, currency, rows, _total(groups.values()))


def usage_summary(
    session: Session,
    tenant_id: TenantId | None,
    *,
    start: date | datetime | None = None,
    end: date | datetime | None = None,
    time_zone: str = "UTC",
) -> UsageSummary:
    """A tenant's (None: everybody's) tokens by stage, the cached share of prompts, and the cost.

    Arguments and errors are those of `cost_report`. Counts of tokens are of billed ones.
    """
    report = cost_report(
        session, tenant_id, group_by=[Dimension.STAGE], start=start, end=end, time_zone=time_zone
    )
    by_name = {row.dimensions[Dimension.STAGE]: row.amounts for row in report.rows}
    stages = {stage: by_name[stage.value] for stage in Stage if stage.value in by_name}
    cached = stages.get(Stage.PREFILL_CACHED, Amounts()).num_tokens
    return UsageSummary(
        interval=report.interval,
        currency=report.currency,
        stages=stages,
        total=report.total,
        prompt_tokens=cached + stages.get(Stage.PREFILL_UNCACHED, Amounts()).num_tokens,
        cached_tokens=cached,
        completion_tokens=stages.get(Stage.DECODE, Amounts()).num_tokens,
    )


def parse_dimensions(names: Iterable[str]) -> tuple[Dimension, ...]:
    """Dimensions by their names, each once, in the order given.

    Raises:
        InvalidInput: a name is unknown.
    """
    known = [dimension.value for dimension in Dimension]
    names = list(dict.fromkeys(names))
    for name in names:
        if name not in known:
            raise InvalidInput(
                f"A report cannot be grouped by {name!r}.",
                remedy=f"Group by any of {', '.join(known)}.",
                group_by=name,
            )
    return tuple(Dimension(name) for name in names)


def one_currency(sums: Iterable[LedgerSum]) -> str | None:
    """The currency of all sums; None of none.

    Raises:
        Conflict: there are two.
    """
    currencies = sorted({line.currency for line in sums})
    if len(currencies) > 1:
        raise Conflict(
            f"The interval has lines in {' and '.join(currencies)}, which cannot be summed.",
            remedy="Ask for an interval with one currency.",
        )
    return currencies[0] if currencies else None


def _value(line: LedgerSum, dimension: Dimension) -> str | None:
    if dimension in _DATES:
        return date_of_day(line.day_number).strftime(_DATES[dimension])
    value: str | None = line.columns[_COLUMNS[dimension]]
    return value


def _period(dimensions: Iterable[Dimension]) -> Period | None:
    dates = {dimension for dimension in dimensions if dimension in _DATES}
    return None if not dates else Period(dates.pop().value) if len(dates) == 1 else Period.DAY


def _order(key: tuple[str | None, ...]) -> list[tuple[bool, str]]:
    """In Python, because databases sort text by their own collations. Without a value goes last."""
    return [(value is None, value or "") for value in key]


def _total(amounts: Iterable[Amounts]) -> Amounts:
    return sum(amounts, start=Amounts())
