"""`longleaf batch`."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cli.options import DEFAULT_COLLECTION, CollectionOption, JsonOption, KeyOption, UrlOption, connect
from cli.output import err, format_moment, format_money, print_json, print_table, say

if TYPE_CHECKING:
    from client import Batch, LongleafClient

app = typer.Typer(help="Files of questions, answered when nobody waits.", no_args_is_help=True)
BatchArgument = Annotated[str, typer.Argument(metavar="ID")]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Where the answers go; - for standard output."),
]
ErrorsOption = Annotated[
    Path | None, typer.Option("--errors", metavar="FILE", help="Where it is written what was not answered.")
]
FormatOption = Annotated[
    Literal["auto", "jsonl", "csv"],
    typer.Option("--format", help="Of both files; auto: a table where the name ends in .csv."),
]


@app.command("run")
def run_batch(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Questions as JSON Lines or CSV.")],
    collection: CollectionOption = DEFAULT_COLLECTION,
    name: Annotated[str | None, typer.Option("--name", help="For people; default: the file's.")] = None,
    on_invalid: Annotated[
        Literal["refuse", "skip"],
        typer.Option("--on-invalid", help="Wrong lines: refuse the file, or skip them into the errors."),
    ] = "refuse",
    max_cost: Annotated[
        str | None, typer.Option("--max-cost", metavar="AMOUNT", help="Ask no more once it has cost this.")
    ] = None,
    expires_after_seconds: Annotated[
        int | None,
        typer.Option("--expires-after", metavar="SECONDS", help="What is not answered by then, is not."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it has ended.")] = True,
    output: OutputOption = None,
    errors: ErrorsOption = None,
    format: FormatOption = "auto",
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Have every question of a file answered.

    The batch goes on if this command is ended: `longleaf batch download ID --wait` takes it up.
    """
    from cli.lookup import require_collection

    data = _read(path)
    with connect(context, url=url, key=key) as client:
        target = require_collection(client, collection)
        batch = client.create_batch(
            target["id"],
            data,
            name=name or path.name,
            on_invalid=on_invalid,
            max_cost=max_cost,
            expires_after_seconds=expires_after_seconds,
        )
        err().print(
            f"{batch['id']}: {batch['request_counts']['total']} questions to {target['name']!r}. It goes on "
            f"without this command; `longleaf batch cancel {batch['id']}` stops it.",
            markup=False,
            soft_wrap=True,
        )
        if wait:
            batch = _follow(client, batch)
            _write_files(client, batch, output=output, errors=errors, format=format)
    _tell(batch, as_json=as_json, is_shown=str(output) != "-")


@app.command("list")
def list_batches(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 50,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """List batches, newest first."""
    with connect(context, url=url, key=key) as client:
        found = list(islice(client.list_batches(), limit))
    if as_json:
        print_json({"items": found})
        return
    rows = [
        (
            each["id"],
            each["name"],
            each["status"],
            f"{each['request_counts']['completed']} of {each['request_counts']['total']}",
            each["request_counts"]["failed"],
            _cost(each),
            format_moment(each["created_at"]),
        )
        for each in found
    ]
    columns = ("id", "name", "status", "answered", "failed", "cost", "created")
    print_table(columns, rows, right=("answered", "failed", "cost"))


@app.command("show")
def show_batch(
    context: typer.Context,
    batch_id: BatchArgument,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Show how far a batch is, and what it cost so far."""
    with connect(context, url=url, key=key) as client:
        batch = client.get_batch(batch_id)
    if as_json:
        print_json(batch)
    else:
        say(_in_words(batch))


@app.command("cancel")
def cancel_batch(
    context: typer.Context,
    batch_id: BatchArgument,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Stop a batch; what was answered stays."""
    with connect(context, url=url, key=key) as client:
        batch = client.cancel_batch(batch_id)
    if as_json:
        print_json(batch)
    else:
        say(_in_words(batch))


@app.command("download")
def download_batch(
    context: typer.Context,
    batch_id: BatchArgument,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it has ended first.")] = False,
    output: OutputOption = Path("-"),
    errors: ErrorsOption = None,
    format: FormatOption = "auto",
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Write the answers of a batch, those that there are."""
    with connect(context, url=url, key=key) as client:
        batch = client.get_batch(batch_id)
        if wait:
            batch = _follow(client, batch)
        _write_files(client, batch, output=output, errors=errors, format=format)


def _read(path: Path) -> bytes:
    from core.errors import NotFound

    if str(path) == "-":
        return sys.stdin.buffer.read()
    if not path.is_file():
        raise NotFound(
            f"There is no file {path}.", remedy="Name a file of questions, or - for standard input."
        )
    return path.read_bytes()


def _follow(client: LongleafClient, batch: Batch) -> Batch:
    from cli.job_progress import follow_job

    follow_job(client, batch["job_id"], "questions", total=batch["request_counts"]["total"], console=err())
    return client.get_batch(batch["id"])


def _write_files(
    client: LongleafClient, batch: Batch, *, output: Path | None, errors: Path | None, format: str
) -> None:
    for kind, path in (("output", output), ("errors", errors)):
        if path is not None:
            _write_file(client, batch["id"], "output" if kind == "output" else "errors", path, format)


def _write_file(
    client: LongleafClient, batch_id: str, kind: Literal["output", "errors"], path: Path, format: str
) -> None:
    is_table = format == "csv" or (format == "auto" and path.suffix.lower() == ".csv")
    pieces = client.stream_batch_file(batch_id, kind, format="csv" if is_table else "jsonl")
    if str(path) == "-":
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.flush()
        return
    with path.open("wb") as file:
        if is_table:
            file.write(b"\xef\xbb\xbf")  # has spreadsheets read it as UTF-8
        file.writelines(pieces)
    err().print(f"wrote {path}", markup=False, style="dim", soft_wrap=True)


def _tell(batch: Batch, *, as_json: bool, is_shown: bool) -> None:
    if as_json:
        print_json(batch)
    elif is_shown:
        say(_in_words(batch))
    if batch["status"] in ("failed", "cancelled", "expired"):
        if batch["error"]:
            say(batch["error"]["detail"], style="red")
        raise typer.Exit(1)


def _in_words(batch: Batch) -> str:
    counts, usage, cost = batch["request_counts"], batch["usage"], _cost(batch)
    failed = f", {counts['failed']} not" if counts["failed"] else ""
    stopped = " (its cost has reached the most allowed)" if batch["stopped_by"] == "max_cost" else ""
    return (
        f"{batch['id']} {batch['status']}{stopped}: {counts['completed']} of {counts['total']} questions "
        f"answered{failed}; {usage['prompt_tokens'] + usage['completion_tokens']:,} tokens"
        f"{', ' + cost if cost else ''}."
    )


def _cost(batch: Batch) -> str:
    cost = batch["cost"]
    return format_money(cost["amount"], cost["currency"]) if cost else ""
