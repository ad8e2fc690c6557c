"""Reports as data for programs (JSON) and for spreadsheets (CSV). Amounts are exact decimal text."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from accounting.calendar import Interval
from accounting.invoices import Invoice, InvoiceLine
from accounting.ledger_sums import Amounts
from accounting.money import format_amount
from accounting.reports import CostReport, UsageSummary
from accounting.savings import Savings
from accounting.top_costs import CostlyThing, TopCosts

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
_AMOUNTS = ("num_tokens", "cost", "burned_tokens", "burned_cost", "engine_cost", "margin")


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


def top_costs_as_json(tops: TopCosts) -> dict[str, Any]:
    """`documents` and `questions`, the dearest first, ready for `json.dumps`."""

    def listed(things: Sequence[CostlyThing]) -> list[dict[str, Any]]:
        return [{"id": thing.id, "text": thing.text, **_amounts(thing.amounts)} for thing in things]

    return {
        **_interval(tops.interval),
        "currency": tops.currency,
        "documents": listed(tops.documents),
        "questions": listed(tops.questions),
    }


def savings_as_json(savings: Savings) -> dict[str, Any]:
    """What was spared, ready for `json.dumps`."""
    return {
        **_interval(savings.interval),
        "currency": savings.currency,
        "cached_tokens": savings.cached_tokens,
        "uncached_cost": format_amount(savings.uncached_cost),
        "cost": format_amount(savings.cost),
        "reused_tokens": savings.reused_tokens,
        "reused_cost": format_amount(savings.reused_cost),
        "saved": format_amount(savings.saved),
    }


def invoice_as_json(invoice: Invoice) -> dict[str, Any]:
    """The invoice with its number and digest, ready for `json.dumps`."""
    return {
        "number": invoice.number,
        "digest": invoice.digest,
        "is_final": invoice.is_final,
        "tenant_id": invoice.tenant_id,
        "month": invoice.month,
        **_interval(invoice.interval),
        "currency": invoice.currency,
        "lines": [_line(line) for line in invoice.lines],
        "subtotal": format_amount(invoice.subtotal),
        "rounding": format_amount(invoice.rounding),
        "total": str(invoice.total),
        "burned_tokens": invoice.burned.burned_tokens,
        "burned_cost": format_amount(invoice.burned.burned_cost),
    }


def invoice_as_csv(invoice: Invoice) -> str:
    """A line each, then the rounding and the total, the latter being the sum of all before."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    names = [field.name for field in fields(InvoiceLine)]
    writer.writerow([*names, "currency", "number"])
    for line in invoice.lines:
        values = [_harmless(value) if isinstance(value, str) else value for value in _line(line).values()]
        writer.writerow([*values[:-1], _line(line)["amount"], invoice.currency, invoice.number])
    blanks = [""] * (len(names) - 2)
    for name, amount in (("rounding", format_amount(invoice.rounding)), ("total", str(invoice.total))):
        writer.writerow([name, *blanks, amount, invoice.currency, invoice.number])
    return buffer.getvalue()


def _line(line: InvoiceLine) -> dict[str, Any]:
    return {
        **asdict(line),
        "price_per_million": format_amount(line.price_per_million),
        "amount": format_amount(line.amount),
    }


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
        "engine_cost": None if amounts.engine_cost is None else format_amount(amounts.engine_cost),
        "margin": None if amounts.margin is None else format_amount(amounts.margin),
    }


def _harmless(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text
