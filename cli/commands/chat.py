"""`longleaf chat`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import DEFAULT_COLLECTION, KeyOption, UrlOption, connect
from cli.output import out, say

if TYPE_CHECKING:
    from client import LongleafClient

_HELP = "Ask away; a question may refer to those before it. /new begins anew, /quit or Ctrl-D ends."


def chat(
    context: typer.Context,
    collection: Annotated[
        str, typer.Argument(metavar="[COLLECTION]", help="By name.", show_default=True)
    ] = DEFAULT_COLLECTION,
    conversation: Annotated[
        str, typer.Option("--conversation", metavar="ID", help="Go on with this one.")
    ] = "",
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Ask one question after another; "and in 2020?" is understood by those before it."""
    from cli.lookup import require_collection

    with connect(context, url=url, key=key) as client:
        if conversation:
            conversation_id = client.get_conversation(conversation)["id"]
            collection_id = client.get_conversation(conversation)["collection_id"]
        else:
            collection_id, conversation_id = require_collection(client, collection)["id"], ""
        say(_HELP, style="dim")
        while (line := _read_line()) is not None:
            if line == "/quit":
                break
            if line == "/new":
                conversation_id = ""
                say("A new conversation begins.", style="dim")
            elif line:
                conversation_id = conversation_id or client.create_conversation(collection_id)["id"]
                _ask(client, conversation_id, line)
    if conversation_id:
        say(f"Go on with `longleaf chat --conversation {conversation_id}`.", style="dim")


def _read_line() -> str | None:
    """The next line of the reader, trimmed; None at the end of the input."""
    if sys.stdin.isatty():
        out().print("\n> ", end="", style="bold")
    try:
        return input().strip()
    except EOFError:
        return None


def _ask(client: LongleafClient, conversation_id: str, question: str) -> None:
    """Print the answer; a question that cannot be answered does not end the conversation."""
    from cli.answers import describe_work, print_sources, print_stream
    from client import ProblemError

    try:
        answer = print_stream(client.ask_next_stream(conversation_id, question), out())
    except ProblemError as problem:
        say(str(problem), style="red")
        return
    print_sources(answer, client, out())
    out().print(describe_work(answer), style="dim", markup=False, soft_wrap=True)
