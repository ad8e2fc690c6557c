"""Reports as data for programs (JSON) and for spreadsheets (CSV). Amounts are exact decimal text."""

from __future__ import annotations

import csv
import io
from typing import Any

from accounting.calendar import Interval
from accounting.money import format_amount
from accounting.reports import Amounts, CostReport, UsageSummary

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
_AMOUNTS = ("num_tokens", "cost", "burned_tokens", "burned_cost")


def cost_report_as_json(report: CostReport) -> dict[str, Any]:
    """`group_by`, the interval, `currency`, `rows` and `total`, ready for `json.dumps`."""
    return {
        "group_by": [dimension.value for dimension in report.group_by],
        **_interval(report.interval),
        "currency": report.currency,
        "rows": [
            {dimension.value: value for dimension, value in row.dimensions.items()} | _amounts(row.amounts)
            for row in report.rows
        ],
        "total": _amounts(report.total) | {"invoice_total": str(report.invoice_total)},
    }


def cost_report_as_csv(report: CostReport) -> str:
    """A header and one line a row, as RFC 4180 has it, with `currency` last.

    Text that a spreadsheet would run as a formula is preceded by an apostrophe.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow([*(dimension.value for dimension in report.group_by), *_AMOUNTS, "currency"])
    for row in report.rows:
        values = [_harmless(value or "") for value in row.dimensions.values()]
        writer.writerow([*values, *_amounts(row.amounts).values(), report.currency])
    return buffer.getvalue()


def usage_as_json(usage: UsageSummary) -> dict[str, Any]:
    """Tokens by stage and by kind, the cached share, cost and currency, ready for `json.dumps`."""
    return {
        **_interval(usage.interval),
        "currency": usage.currency,
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens,
        "completion_tokens": usage.completion_tokens,
        "cached_share": usage.cached_share,
        "stages": {stage.value: _amounts(amounts) for stage, amounts in usage.stages.items()},
        "total": _amounts(usage.total),
    }


def _interval(interval: Interval) -> dict[str, str | None]:
    return {
        "start": interval.start.isoformat() if interval.start else None,
        "end": interval.end.isoformat() if interval.end else None,
        "time_zone": interval.zone.key,
    }


def _amounts(amounts: Amounts) -> dict[str, Any]:
    return {
        "num_tokens": amounts.num_tokens,
        "cost": format_amount(amounts.cost),
        "burned_tokens": amounts.burned_tokens,
        "burned_cost": format_amount(amounts.burned_cost),
    }


def _harmless(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text
