"""`longleaf extract`."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

import typer

from cli.options import DEFAULT_COLLECTION, CollectionOption, JsonOption, KeyOption, UrlOption, connect
from cli.output import err, format_moment, print_json, print_table, say

app = typer.Typer(
    help="Tables out of collections: a schema's properties are the columns, documents the rows.",
    no_args_is_help=True,
)
Method = Literal["auto", "rule", "choice", "fill"]
ExtractionArgument = Annotated[str, typer.Argument(metavar="ID")]
CsvFile = Annotated[
    Path | None,
    typer.Option("--csv", metavar="FILE", help="Write the table with its citations; - for standard output."),
]


@app.command("run")
def run_extraction(
    context: typer.Context,
    schema: Annotated[
        Path, typer.Option("--schema", metavar="FILE", help="A JSON schema whose properties are the columns.")
    ],
    collection: CollectionOption = DEFAULT_COLLECTION,
    instructions: Annotated[str, typer.Option("--instructions", help="What holds for all columns.")] = "",
    document: Annotated[
        list[str] | None,
        typer.Option("--document", metavar="ID", help="Only this document; repeatable."),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="TAG", help="Only documents so tagged; repeatable."),
    ] = None,
    method: Annotated[
        Method, typer.Option("--method", help="How cells come about; auto: as fits the model.")
    ] = "auto",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the table is filled.")] = True,
    csv_file: CsvFile = None,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Make a table of a collection's documents."""
    from cli.answer_formats import read_schema
    from cli.extractions import follow, print_rows, write_csv
    from cli.lookup import require_collection

    columns = read_schema(schema)
    with connect(context, url=url, key=key) as client:
        target = require_collection(client, collection)
        extraction = client.create_extraction(
            target["id"],
            schema=columns,
            instructions=instructions,
            filter={"document_ids": document or [], "tags": tag or []},
            method=method,
        )
        say(
            f"{extraction['id']}: {extraction['num_documents']} documents of {target['name']!r}. It goes on "
            f"without this command; `longleaf jobs cancel {extraction['job_id']}` stops it."
        )
        if wait:
            extraction = follow(client, extraction, err())
        if csv_file is not None:
            write_csv(csv_file, client.download_extraction(extraction["id"]))
        if as_json:
            print_json(extraction | {"rows": list(client.list_extraction_rows(extraction["id"]))})
        elif wait and str(csv_file) != "-":
            print_rows(extraction, client.list_extraction_rows(extraction["id"]))
    if extraction["status"] in ("failed", "cancelled"):
        if extraction["error"]:
            say(extraction["error"]["detail"], style="red")
        raise typer.Exit(1)


@app.command("list")
def list_extractions(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 50,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """List extractions, newest first."""
    with connect(context, url=url, key=key) as client:
        found = list(islice(client.list_extractions(), limit))
    if as_json:
        print_json({"items": found})
        return
    rows = [
        (
            each["id"],
            ", ".join(each["columns"])[:60],
            each["status"],
            f"{each['num_done']} of {each['num_documents']}",
            format_moment(each["created_at"]),
        )
        for each in found
    ]
    print_table(("id", "columns", "status", "done", "created"), rows, right=("done",))


@app.command("show")
def show_extraction(
    context: typer.Context,
    extraction_id: ExtractionArgument,
    csv_file: CsvFile = None,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Show how far an extraction is; --csv writes its table."""
    from cli.extractions import write_csv

    with connect(context, url=url, key=key) as client:
        extraction = client.get_extraction(extraction_id)
        if csv_file is not None:
            write_csv(csv_file, client.download_extraction(extraction_id))
    if as_json:
        print_json(extraction)
    elif str(csv_file) != "-":
        say(
            f"{extraction['id']}: {extraction['status']}, {extraction['num_done']} of "
            f"{extraction['num_documents']} documents; columns {', '.join(extraction['columns'])}"
        )


@app.command("rows")
def list_rows(
    context: typer.Context,
    extraction_id: ExtractionArgument,
    csv_file: CsvFile = None,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Show an extraction's rows: each value with its page, or why there is none."""
    from cli.extractions import print_rows, write_csv

    with connect(context, url=url, key=key) as client:
        extraction = client.get_extraction(extraction_id)
        if csv_file is not None:
            write_csv(csv_file, client.download_extraction(extraction_id))
        elif as_json:
            print_json({"items": list(client.list_extraction_rows(extraction_id))})
        else:
            print_rows(extraction, client.list_extraction_rows(extraction_id))
