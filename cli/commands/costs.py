"""`longleaf costs`."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cli.options import JsonOption, KeyOption, UrlOption, connect
from cli.output import format_moment, format_money, out, print_json, print_table, say

if TYPE_CHECKING:
    from client import StoredReport

_DIMENSIONS = "day, week, month, stage, model, collection, document, key, job, job_kind, schedule, tenant."
_BAR_CELLS = 24

FromOption = Annotated[str | None, typer.Option("--from", metavar="DATE", help="First day.")]
ToOption = Annotated[str | None, typer.Option("--to", metavar="DATE", help="Day after the last.")]
ZoneOption = Annotated[str | None, typer.Option("--time-zone", metavar="NAME", help="IANA name.")]
LanguageOption = Annotated[Literal["en", "zh"], typer.Option("--language", help="Of the HTML's own words.")]


def costs(
    context: typer.Context,
    by: Annotated[str, typer.Option("--by", metavar="A,B", help=_DIMENSIONS)] = "day,stage",
    start: FromOption = None,
    end: ToOption = None,
    time_zone: ZoneOption = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with plots there.")
    ] = None,
    language: LanguageOption = "en",
    all_tenants: Annotated[
        bool, typer.Option("--all-tenants", help="For the operator: everybody's; try --by tenant.")
    ] = False,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """What was consumed, and what it cost."""
    if context.invoked_subcommand is not None:
        return
    if as_csv and as_json:
        raise typer.BadParameter("--csv and --json exclude each other.")
    if all_tenants and html is not None:
        raise typer.BadParameter("--html is of one tenant; use --csv or --json with --all-tenants.")
    group_by = [name.strip() for name in by.split(",") if name.strip()]
    with connect(context, url=url, key=key) as client:
        if as_csv:
            report = client.get_costs_csv(
                group_by=group_by, start=start, end=end, time_zone=time_zone, all_tenants=all_tenants
            )
            out().file.write(report)
            return
        if html is not None:
            page = client.get_costs_page(
                group_by=group_by, start=start, end=end, time_zone=time_zone, language=language
            )
            html.write_text(page, encoding="utf-8")
            say(f"Written to {html}.")
            return
        document = client.get_costs(
            group_by=group_by, start=start, end=end, time_zone=time_zone, all_tenants=all_tenants
        )
    if as_json:
        print_json(document)
    else:
        print_costs(document)


def top(
    context: typer.Context,
    start: FromOption = None,
    end: ToOption = None,
    time_zone: ZoneOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100, help="At most so many of each.")] = 10,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """The documents and the questions that cost most."""
    with connect(context, url=url, key=key) as client:
        found = client.get_top_costs(start=start, end=end, time_zone=time_zone, limit=limit)
    if as_json:
        print_json(found)
        return
    for kind in ("documents", "questions"):
        rows = [
            (thing["id"], thing["text"], format_money(thing["cost"], found["currency"]))
            for thing in found[kind]
        ]
        print_table(("id", kind, "cost"), rows, right=("cost",))


def savings(
    context: typer.Context,
    start: FromOption = None,
    end: ToOption = None,
    time_zone: ZoneOption = None,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """What the prefix cache, and not embedding anything twice, saved."""
    with connect(context, url=url, key=key) as client:
        found = client.get_savings(start=start, end=end, time_zone=time_zone)
    if as_json:
        print_json(found)
        return
    currency = found["currency"]
    say(
        f"{found['cached_tokens']:,} tokens of prompts were computed before: "
        f"{format_money(found['cost'], currency)} in place of {format_money(found['uncached_cost'], currency)}, "
        f"{format_money(str(Decimal(found['uncached_cost']) - Decimal(found['cost'])), currency)} saved."
    )
    say(
        f"{found['reused_tokens']:,} tokens of uploads were embedded before: "
        f"{format_money(found['reused_cost'], currency)} saved, {format_money(found['saved'], currency)} in all."
    )


def invoice(
    context: typer.Context,
    month: Annotated[str, typer.Argument(metavar="MONTH", help="Such as 2026-11.")],
    time_zone: ZoneOption = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write it there as a page.")
    ] = None,
    language: LanguageOption = "en",
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """What is owed for a month, line by line."""
    with connect(context, url=url, key=key) as client:
        if as_csv:
            out().file.write(client.get_invoice_text(month, format="csv", time_zone=time_zone))
            return
        if html is not None:
            page = client.get_invoice_text(month, format="html", time_zone=time_zone, language=language)
            html.write_text(page, encoding="utf-8")
            say(f"Written to {html}.")
            return
        found = client.get_invoice(month, time_zone=time_zone)
    if as_json:
        print_json(found)
        return
    currency = found["currency"]
    rows = [
        (
            line["model"],
            f"{line['stage']}, correction" if line["is_correction"] else line["stage"],
            f"{line['num_tokens']:,}",
            format_money(line["price_per_million"], currency),
            format_money(line["amount"], currency),
        )
        for line in found["lines"]
    ]
    print_table(
        ("model", "stage", "tokens", "per million", "amount"), rows, right=("tokens", "per million", "amount")
    )
    say(f"Exact sum {format_money(found['subtotal'], currency)}, rounding {found['rounding']}.")
    state = "" if found["is_final"] else " (the month is not over)"
    say(f"{found['number']}: {found['total']} {currency}{state}")


def stored(
    context: typer.Context,
    report_id: Annotated[str | None, typer.Argument(metavar="[REPORT]", help="Left out: list them.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write it there as a page.")
    ] = None,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Reports that schedules have made and kept."""
    if report_id is None and (as_csv or html is not None):
        raise typer.BadParameter("Name the report.")
    with connect(context, url=url, key=key) as client:
        if report_id is None:
            _print_stored(list(client.list_stored_reports()), as_json=as_json)
            return
        if as_csv:
            out().file.write(client.get_stored_report_text(report_id, format="csv"))
            return
        if html is not None:
            html.write_text(client.get_stored_report_text(report_id, format="html"), encoding="utf-8")
            say(f"Written to {html}.")
            return
        found = client.get_stored_report(report_id)
    content = found.get("content")
    if as_json:
        print_json(found)
    elif content is None:
        say(f"{report_id}: {found['status']}.")
    else:
        print_costs(content["costs"])


def _print_stored(reports: list[StoredReport], *, as_json: bool) -> None:
    if as_json:
        print_json({"items": reports})
        return
    rows = [
        (
            report["id"],
            report["parameters"]["interval"],
            ",".join(report["parameters"]["group_by"]),
            format_moment(report["start"]),
            format_moment(report["end"]),
            report["status"],
        )
        for report in reports
    ]
    print_table(("id", "interval", "by", "from", "to", "status"), rows)


def print_costs(report: dict[str, Any]) -> None:
    """A cost report as a table with a bar for each row, and its total."""
    dimensions, currency = report["group_by"], report["currency"]
    is_rated = report["total"].get("engine_cost") is not None
    greatest = max((Decimal(row["cost"]) for row in report["rows"]), default=Decimal(0))
    rows = [
        (
            *(row.get(name) or "–" for name in dimensions),
            f"{row['num_tokens']:,}",
            format_money(row["cost"], currency),
            f"{row['burned_tokens']:,}",
            *(_rated(row, currency) if is_rated else ()),
            _bar(row["cost"], greatest),
        )
        for row in report["rows"]
    ]
    figures = ("tokens", "cost", "burned", *(("machine", "margin") if is_rated else ()))
    print_table((*dimensions, *figures, ""), rows, right=figures)
    total = report["total"]
    said = f"In all {total['num_tokens']:,} tokens, {format_money(total['cost'], currency)}"
    if is_rated:
        machine, margin = _rated(total, currency)
        said += f"; the machine cost {machine}, which leaves {margin}"
    say(f"{said}.")


def _rated(amounts: dict[str, Any], currency: str) -> tuple[str, str]:
    """What the machine cost, and the margin; of lines whose model has no hourly rate, neither is known."""
    if amounts.get("engine_cost") is None:
        return "–", "–"
    return format_money(amounts["engine_cost"], currency), format_money(amounts["margin"], currency)


def _bar(cost: str, greatest: Decimal) -> str:
    """In eighths of a cell, the greatest cost being full."""
    eighths = round(8 * _BAR_CELLS * Decimal(cost) / greatest) if greatest > 0 else 0
    full, rest = divmod(max(0, eighths), 8)
    return "█" * full + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[rest]
