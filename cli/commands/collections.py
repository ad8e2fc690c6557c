"""`longleaf collections`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import JsonOption, KeyOption, UrlOption, connect
from cli.output import format_moment, print_json, print_table, say

app = typer.Typer(help="Collections, which hold documents.", no_args_is_help=True)
NameArgument = Annotated[str, typer.Argument(metavar="NAME")]


@app.command("list")
def list_collections(
    context: typer.Context, as_json: JsonOption = False, url: UrlOption = "", key: KeyOption = ""
) -> None:
    """List collections."""
    with connect(context, url=url, key=key) as client:
        found = list(client.list_collections())
    if as_json:
        print_json({"items": found})
        return
    rows = [
        (each["name"], each["num_documents"], each["id"], format_moment(each["created_at"])) for each in found
    ]
    print_table(("name", "documents", "id", "created"), rows, right=("documents",))


@app.command("create")
def create_collection(
    context: typer.Context,
    name: NameArgument,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Make an empty collection."""
    with connect(context, url=url, key=key) as client:
        made = client.create_collection(name)
    if as_json:
        print_json(made)
    else:
        say(f"Collection {made['name']!r} is {made['id']}.")


@app.command("delete")
def delete_collection(
    context: typer.Context,
    name: NameArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Delete a collection with all its documents."""
    from cli.lookup import require_collection

    with connect(context, url=url, key=key) as client:
        found = require_collection(client, name)
        if not yes:
            question = f"Delete {found['name']!r} with its {found['num_documents']} documents?"
            typer.confirm(question, abort=True, err=True)
        client.delete_collection(found["id"])
    say(f"Collection {found['name']!r} is deleted.")
