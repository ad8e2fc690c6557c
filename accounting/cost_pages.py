"""Cost reports and invoices as HTML pages that print."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from functools import cache

from jinja2 import Template
from markupsafe import Markup

from accounting.cost_page_words import words
from accounting.invoices import Invoice
from accounting.money import format_amount
from accounting.reports import CostReport, Dimension
from accounting.savings import Savings
from accounting.top_costs import TopCosts
from core.html.page import CONTENT_SECURITY_POLICY, ReportLanguage, load_template
from core.html.plots import axis_for, grouped_bars

_MAX_BARS = 8


def render_costs(
    report: CostReport, tops: TopCosts, savings: Savings, *, tenant: str, language: ReportLanguage = "en"
) -> str:
    """The report with a plot for each of its dimensions, the dearest things, and every row."""
    named = words(language)
    return _template("costs.html.jinja").render(
        language=language,
        words=named,
        policy=CONTENT_SECURITY_POLICY,
        tenant=tenant,
        report=report,
        tops=tops,
        savings=savings,
        plots=[
            (named[dimension.value], _plot(report, dimension, named["cost"], named["none"]))
            for dimension in report.group_by
            if report.rows
        ],
    )


def render_invoice(invoice: Invoice, *, tenant: str, language: ReportLanguage = "en") -> str:
    """The invoice as a letter's enclosure."""
    return _template("invoice.html.jinja").render(
        language=language,
        words=words(language),
        policy=CONTENT_SECURITY_POLICY,
        tenant=tenant,
        invoice=invoice,
    )


def _plot(report: CostReport, dimension: Dimension, cost: str, none: str) -> Markup:
    """Costs along one dimension: the newest dates in order, or the dearest of all else."""
    sums: defaultdict[str, Decimal] = defaultdict(Decimal)
    for row in report.rows:
        sums[row.dimensions[dimension] or none] += row.amounts.cost
    if dimension in (Dimension.DAY, Dimension.WEEK, Dimension.MONTH):
        shown = sorted(sums)[-_MAX_BARS:]
    else:
        shown = sorted(sums, key=lambda name: (-sums[name], name))[:_MAX_BARS]
    heights = [float(sums[name]) for name in shown]
    axis = axis_for(heights, label=report.currency, write=_figure)
    groups = {name: {cost: height} for name, height in zip(shown, heights, strict=True)}
    return grouped_bars(groups, axis, title=dimension.value, series=[cost])


def _figure(value: float) -> str:
    return f"{value:,.4g}"


def _count(value: int) -> str:
    return f"{value:,}"


@cache
def _template(name: str) -> Template:
    return load_template("accounting", name, money=format_amount, count=_count)
