"""`longleaf costs`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli.options import JsonOption, KeyOption, UrlOption, connect
from cli.output import format_money, out, print_json, print_table, say


def costs(
    context: typer.Context,
    by: Annotated[
        str, typer.Option("--by", metavar="A,B", help="day, month, stage, model, collection, document, key.")
    ] = "day,stage",
    start: Annotated[str | None, typer.Option("--from", metavar="DATE", help="First day.")] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="DATE", help="Day after the last.")] = None,
    time_zone: Annotated[str | None, typer.Option("--time-zone", metavar="NAME", help="IANA name.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """What was consumed, and what it cost."""
    if context.invoked_subcommand is not None:
        return
    if as_csv and as_json:
        raise typer.BadParameter("--csv and --json exclude each other.")
    group_by = [name.strip() for name in by.split(",") if name.strip()]
    with connect(context, url=url, key=key) as client:
        if as_csv:
            report = client.get_costs_csv(group_by=group_by, start=start, end=end, time_zone=time_zone)
            out().file.write(report)
            return
        document = client.get_costs(group_by=group_by, start=start, end=end, time_zone=time_zone)
    if as_json:
        print_json(document)
    else:
        print_costs(document)


def print_costs(report: dict[str, Any]) -> None:
    """A cost report as a table, and its total."""
    dimensions, currency = report["group_by"], report["currency"]
    rows = [
        (
            *(row.get(name) or "–" for name in dimensions),
            f"{row['num_tokens']:,}",
            format_money(row["cost"], currency),
            f"{row['burned_tokens']:,}",
        )
        for row in report["rows"]
    ]
    columns = (*dimensions, "tokens", "cost", "burned")
    print_table(columns, rows, right=columns[len(dimensions) :])
    total = report["total"]
    say(f"In all {total['num_tokens']:,} tokens, {format_money(total['cost'], currency)}.")
