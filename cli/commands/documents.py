"""`longleaf documents`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import DEFAULT_COLLECTION, CollectionOption, JsonOption, KeyOption, UrlOption, connect
from cli.output import format_bytes, print_json, print_table, say

app = typer.Typer(help="Documents of a collection.", no_args_is_help=True)


@app.command("list")
def list_documents(
    context: typer.Context,
    collection: CollectionOption = DEFAULT_COLLECTION,
    status: Annotated[str | None, typer.Option("--status", help="processing, ready or failed.")] = None,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """List documents."""
    from cli.lookup import require_collection

    with connect(context, url=url, key=key) as client:
        target = require_collection(client, collection)
        found = list(client.list_documents(target["id"], status=status))
    if as_json:
        print_json({"items": found})
        return
    rows = [
        (
            each["name"],
            each["status"],
            each["num_pages"],
            each["num_chunks"],
            format_bytes(each["num_bytes"]),
            each["error"]["detail"] if each["error"] else "; ".join(each["warnings"]),
            each["id"],
        )
        for each in found
    ]
    columns = ("name", "status", "pages", "chunks", "size", "remarks", "id")
    print_table(columns, rows, right=("pages", "chunks", "size"))


@app.command("delete")
def delete_document(
    context: typer.Context,
    document_id: Annotated[str, typer.Argument(metavar="ID")],
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Delete a document; no search finds it from then on."""
    with connect(context, url=url, key=key) as client:
        client.delete_document(document_id)
    say(f"Document {document_id} is deleted.")
