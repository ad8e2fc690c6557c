"""`longleaf prices`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import JsonOption, KeyOption, UrlOption, connect
from cli.output import format_moment, format_money, print_json, print_table, say

app = typer.Typer(help="What work costs, and from when.", invoke_without_command=True)


@app.callback()
def prices(
    context: typer.Context,
    at: Annotated[
        str | None, typer.Option("--at", metavar="MOMENT", help="What applies then; with its zone.")
    ] = None,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """List prices and one's own, with the dates from which they hold."""
    if context.invoked_subcommand is not None:
        return
    with connect(context, url=url, key=key) as client:
        found = client.get_prices(at=at)
    if as_json:
        print_json(found)
        return
    rows = [
        (
            price["id"],
            price["model"],
            price["revision"] or "all",
            price["stage"],
            format_money(price["price_per_million"], price["currency"]),
            format_moment(price["effective_from"]),
            "own" if price["is_own"] else "list",
            "announced" if price["is_announced"] else "book",
        )
        for price in found["items"]
    ]
    columns = ("id", "model", "revision", "stage", "per million", "from", "whose", "by")
    print_table(columns, rows, right=("per million",))


@app.command("announce")
def announce(
    context: typer.Context,
    stage: Annotated[str, typer.Argument(metavar="STAGE", help="decode, embed, …, or engine_hour.")],
    price: Annotated[str, typer.Argument(metavar="PRICE", help="Per million tokens; per engine_hour.")],
    effective_from: Annotated[str, typer.Option("--from", metavar="MOMENT", help="To come; with its zone.")],
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="Registry name.")] = "*",
    revision: Annotated[str, typer.Option("--revision", help="Of the model; default: all.")] = "",
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="ID", help="Its own price.")] = None,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Announce a price to the running service. For the operator."""
    with connect(context, url=url, key=key) as client:
        made = client.announce_price(
            stage=stage,
            price_per_million=price,
            effective_from=effective_from,
            model=model,
            revision=revision,
            tenant_id=tenant,
        )
    if as_json:
        print_json(made)
    else:
        say(f"{made['id']} holds from {format_moment(made['effective_from'])}.")


@app.command("withdraw")
def withdraw(
    context: typer.Context,
    price_id: Annotated[str, typer.Argument(metavar="PRICE")],
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Withdraw an announced price that does not hold yet. For the operator."""
    with connect(context, url=url, key=key) as client:
        client.withdraw_price(price_id)
    say(f"{price_id} is withdrawn.")
