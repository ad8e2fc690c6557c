"""`longleaf budgets`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cli.options import JsonOption, KeyOption, UrlOption, connect
from cli.output import format_moment, print_json, print_table, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from client import Budget

app = typer.Typer(
    help="How much a tenant, a key or a collection may use, and how much of it is used.",
    no_args_is_help=True,
)
BudgetArgument = Annotated[str, typer.Argument(metavar="ID")]
WarnAtOption = Annotated[
    list[int] | None,
    typer.Option("--warn-at", metavar="PERCENT", help="Tell at this share of the limit; repeatable."),
]


@app.command("create")
def create_budget(
    context: typer.Context,
    limit: Annotated[str, typer.Argument(metavar="LIMIT", help="Tokens, or an amount such as 25.00.")],
    unit: Annotated[Literal["tokens", "money"], typer.Option("--unit", help="What is counted.")] = "money",
    period: Annotated[
        Literal["day", "month", "total"], typer.Option("--per", help="When it is whole again; total: never.")
    ] = "month",
    time_zone: Annotated[
        str | None, typer.Option("--time-zone", metavar="NAME", help="IANA name; default: UTC.")
    ] = None,
    warn_at: WarnAtOption = None,
    of_key: Annotated[str | None, typer.Option("--of-key", metavar="ID", help="Of this key only.")] = None,
    of_collection: Annotated[
        str | None, typer.Option("--of-collection", metavar="NAME", help="Of this collection only.")
    ] = None,
    of_tenant: Annotated[
        str | None, typer.Option("--of-tenant", metavar="ID", help="Of another tenant, for the operator.")
    ] = None,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Limit what may be used. Without --of-…, of the whole tenant, which is for the operator."""
    from cli.lookup import require_collection

    with connect(context, url=url, key=key) as client:
        budget = client.create_budget(
            limit,
            unit=unit,
            period=period,
            time_zone=time_zone,
            warn_at=warn_at,
            key_id=of_key,
            collection_id=require_collection(client, of_collection)["id"] if of_collection else None,
            tenant_id=of_tenant,
        )
    _print([budget], as_json=as_json)


@app.command("list")
def list_budgets(
    context: typer.Context,
    all_tenants: Annotated[
        bool, typer.Option("--all-tenants", help="For the operator: everybody's.")
    ] = False,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """List budgets as they stand, oldest first."""
    with connect(context, url=url, key=key) as client:
        found = list(client.list_budgets(all_tenants=all_tenants))
    if as_json:
        print_json({"items": found})
    else:
        _print(found, as_json=False)


@app.command("show")
def show_budget(
    context: typer.Context,
    budget_id: BudgetArgument,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Show what is used, held and left of a budget."""
    with connect(context, url=url, key=key) as client:
        budget = client.get_budget(budget_id)
    _print([budget], as_json=as_json)


@app.command("change")
def change_budget(
    context: typer.Context,
    budget_id: BudgetArgument,
    limit: Annotated[str | None, typer.Option("--limit", metavar="LIMIT", help="The new limit.")] = None,
    warn_at: WarnAtOption = None,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Change a budget's limit or thresholds. Below what is used, nothing new begins."""
    with connect(context, url=url, key=key) as client:
        budget = client.change_budget(budget_id, limit=limit, warn_at=warn_at)
    _print([budget], as_json=as_json)
    if budget["state"] == "exhausted" and not as_json:
        until = f"before {format_moment(budget['reset_at'])}" if budget["reset_at"] else "until it is raised"
        say(f"{budget['used']} are used already: nothing new begins {until}.", style="yellow")


@app.command("delete")
def delete_budget(
    context: typer.Context, budget_id: BudgetArgument, url: UrlOption = "", key: KeyOption = ""
) -> None:
    """Delete a budget; the ledger keeps what was used."""
    with connect(context, url=url, key=key) as client:
        client.delete_budget(budget_id)
    say(f"Budget {budget_id} is deleted.")


def _print(budgets: Iterable[Budget], *, as_json: bool) -> None:
    if as_json:
        for budget in budgets:
            print_json(budget)
        return
    amounts = ("limit", "used", "held", "left")
    rows = [
        (
            each["id"],
            each["key_id"] or each["collection_id"] or each["tenant_id"],
            *(each[name] for name in amounts),  # type: ignore[literal-required]
            f"{each['currency'] or each['unit']} per {each['period']}",
            each["state"],
            format_moment(each["reset_at"]),
        )
        for each in budgets
    ]
    print_table(("id", "of", *amounts, "what", "state", "reset"), rows, right=amounts)
