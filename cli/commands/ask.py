"""`longleaf ask`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from cli.options import DEFAULT_COLLECTION, CollectionOption, JsonOption, KeyOption, UrlOption, connect
from cli.output import out, print_json


class Mode(StrEnum):
    AUTO = "auto"
    EXTRACTIVE = "extractive"
    ABSTRACTIVE = "abstractive"


def ask(
    context: typer.Context,
    question: Annotated[str, typer.Argument(metavar="QUESTION")],
    collection: CollectionOption = DEFAULT_COLLECTION,
    mode: Annotated[
        Mode, typer.Option("--mode", help="auto: what suits the model; extractive: verbatim sentences.")
    ] = Mode.AUTO,
    stream: Annotated[bool, typer.Option("--stream/--no-stream", help="Show text as it is written.")] = True,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Ask a question; the answer comes with its citations and its cost."""
    from cli.answers import describe_work, print_sources, print_stream, print_text
    from cli.lookup import require_collection

    with connect(context, url=url, key=key) as client:
        target = require_collection(client, collection)
        if as_json:
            print_json(client.ask(target["id"], question, mode=mode.value))
            return
        if stream:
            answer = print_stream(client.ask_stream(target["id"], question, mode=mode.value), out())
        else:
            answer = client.ask(target["id"], question, mode=mode.value)
            print_text(answer, out())
        print_sources(answer, client, out())
        out().print(describe_work(answer), style="dim", markup=False, soft_wrap=True)
