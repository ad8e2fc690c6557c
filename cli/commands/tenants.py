"""`longleaf tenants`: the operator's, on the machine of the database."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import JsonOption, settings_of
from cli.output import format_moment, print_json, print_table, say

app = typer.Typer(help="Tenants, made on the machine that has the database.", no_args_is_help=True)


@app.command("create")
def create_tenant(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    as_json: JsonOption = False,
) -> None:
    """Make a tenant, without keys."""
    from cli.local_database import local_database
    from core.clock import utc_now
    from tenancy.tenants import create_tenant as create

    with local_database(settings_of(context)) as database, database.write() as session:
        made = create(session, name=name, now=utc_now())
    if as_json:
        print_json({"id": made.id, "name": made.name, "created_at": made.created_at})
    else:
        say(
            f"Tenant {made.name!r} is {made.id}. `longleaf keys create NAME --tenant {made.id}` issues a key."
        )


@app.command("list")
def list_tenants(context: typer.Context, as_json: JsonOption = False) -> None:
    """List tenants."""
    from cli.local_database import all_tenants, local_database

    with local_database(settings_of(context)) as database, database.read() as session:
        found = list(all_tenants(session))
    if as_json:
        items = [{"id": each.id, "name": each.name, "created_at": each.created_at} for each in found]
        print_json({"items": items})
        return
    rows = [(each.name, each.id, format_moment(each.created_at)) for each in found]
    print_table(("name", "id", "created"), rows)
