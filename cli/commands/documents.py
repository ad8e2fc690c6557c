"""`longleaf documents`."""

from __future__ import annotations

from pathlib import Path
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
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", "-t", metavar="TAG", help="Only those with it; repeat it for any of several."),
    ] = None,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """List documents."""
    from cli.lookup import require_collection

    with connect(context, url=url, key=key) as client:
        target = require_collection(client, collection)
        found = list(client.list_documents(target["id"], status=status, tags=tag or ()))
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
            ", ".join(each["tags"]),
            each["error"]["detail"] if each["error"] else "; ".join(each["warnings"]),
            each["id"],
        )
        for each in found
    ]
    columns = ("name", "status", "pages", "chunks", "size", "tags", "remarks", "id")
    print_table(columns, rows, right=("pages", "chunks", "size"))


@app.command("tag")
def tag_document(
    context: typer.Context,
    document_id: Annotated[str, typer.Argument(metavar="ID")],
    tags: Annotated[
        list[str] | None, typer.Argument(metavar="TAG...", help="Its tags from now on, in place of others.")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Take all tags off.")] = False,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Replace a document's tags, by which questions and lists are filtered."""
    if bool(tags) == clear:
        raise typer.BadParameter("Give the tags, or --clear to take all off.")
    with connect(context, url=url, key=key) as client:
        document = client.set_document_tags(document_id, tags or ())
    if as_json:
        print_json(document)
        return
    said = ", ".join(document["tags"]) or "no tags"
    say(f"{document['name']} ({document_id}) has {said}.")


@app.command("static")
def mark_static(
    context: typer.Context,
    document_id: Annotated[str, typer.Argument(metavar="ID")],
    off: Annotated[bool, typer.Option("--off", help="Take the mark off.")] = False,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Mark a document static: asked about whole, and computed once for all restarts of the engine."""
    with connect(context, url=url, key=key) as client:
        document = client.set_document_static(document_id, static=not off)
    if as_json:
        print_json(document)
        return
    say(f"{document['name']} ({document_id}) is {'static' if document['static'] else 'not static'}.")


@app.command("page")
def show_page(
    context: typer.Context,
    document_id: Annotated[str, typer.Argument(metavar="ID")],
    number: Annotated[int, typer.Argument(metavar="PAGE", min=1, help="From 1.")] = 1,
    png: Annotated[
        Path | None,
        typer.Option("--png", metavar="FILE", dir_okay=False, help="Save a picture of it; PDFs only."),
    ] = None,
    answer: Annotated[
        str | None,
        typer.Option("--answer", metavar="ID", help="Mark in the picture what this answer cites."),
    ] = None,
    width: Annotated[
        int | None, typer.Option("--width", metavar="PIXELS", help="Of the picture; 100 to 2400.")
    ] = None,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Print a page's text, or save its picture."""
    if png is None and (answer is not None or width is not None):
        raise typer.BadParameter("--answer and --width are about the picture: name its file with --png.")
    with connect(context, url=url, key=key) as client:
        if png is not None:
            png.write_bytes(client.get_page_picture(document_id, number, answer_id=answer, width=width))
            say(f"Page {number} of {document_id} is in {png}.")
            return
        page = client.get_document_page(document_id, number)
    if as_json:
        print_json(page)
        return
    print(page["text"], end="")


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
