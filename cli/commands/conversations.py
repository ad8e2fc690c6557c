"""`longleaf conversations`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import JsonOption, KeyOption, UrlOption, connect
from cli.output import format_moment, out, print_json, print_table, say

app = typer.Typer(help="Conversations, whose questions refer to those before them.", no_args_is_help=True)
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="`con_…`")]


@app.command("list")
def list_conversations(
    context: typer.Context,
    collection: Annotated[
        str, typer.Option("--collection", "-c", metavar="NAME", help="Only those about this one.")
    ] = "",
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """List conversations, the newest first."""
    from cli.lookup import require_collection

    with connect(context, url=url, key=key) as client:
        wanted = require_collection(client, collection)["id"] if collection else None
        found = list(client.list_conversations(collection_id=wanted))
        names = {each["id"]: each["name"] for each in client.list_collections()}
    if as_json:
        print_json({"items": found})
        return
    rows = [
        (
            each["title"],
            names.get(each["collection_id"], "(deleted)"),
            each["num_turns"],
            each["id"],
            format_moment(each["created_at"]),
        )
        for each in found
    ]
    print_table(("title", "collection", "turns", "id", "created"), rows, right=("turns",))


@app.command("show")
def show_conversation(
    context: typer.Context,
    conversation_id: IdArgument,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Print a conversation's turns."""
    from cli.answers import print_sources, print_text

    with connect(context, url=url, key=key) as client:
        conversation = client.get_conversation(conversation_id)
        turns = list(client.list_turns(conversation_id))
        if as_json:
            print_json(conversation | {"turns": turns})
            return
        for turn in turns:
            out().print(f"{turn['turn']}. {turn['question']}", style="bold", markup=False, soft_wrap=True)
            if turn["status"] == "succeeded":
                print_text(turn, out())
                print_sources(turn, client, out())
            else:
                reason = f": {turn['error']['detail']}" if turn["error"] else ""
                out().print(f"({turn['status']}{reason})", style="dim", markup=False, soft_wrap=True)


@app.command("delete")
def delete_conversation(
    context: typer.Context,
    conversation_id: IdArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Delete a conversation; its answers can still be read one by one."""
    with connect(context, url=url, key=key) as client:
        found = client.get_conversation(conversation_id)
        if not yes:
            typer.confirm(f"Delete {found['id']} with its {found['num_turns']} turns?", abort=True, err=True)
        client.delete_conversation(conversation_id)
    say(f"Conversation {conversation_id} is deleted.")
