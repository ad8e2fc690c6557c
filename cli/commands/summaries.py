"""`longleaf summarize` and `longleaf summaries`."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from cli.options import DEFAULT_COLLECTION, CollectionOption, JsonOption, KeyOption, UrlOption, connect
from cli.output import err, format_moment, format_money, print_json, print_table, say

app = typer.Typer(help="Summaries that were made, their versions, and what changed.", no_args_is_help=True)

Style = Literal["summary", "key_points", "changes_since_last", "prompt"]
Writer = Literal["auto", "extractive", "abstractive"]
Method = Literal["map_reduce", "refine"]
Length = Literal["short", "paragraph", "long"]
Language = Literal["auto", "en", "zh"]
Unsupported = Literal["flag", "remove"]
Format = Literal["markdown", "html", "json"]

SummaryArgument = Annotated[str, typer.Argument(metavar="ID")]
FormatOption = Annotated[Format, typer.Option("--format", help="How it is printed or written.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it into a file.")
]


def summarize(
    context: typer.Context,
    collection: CollectionOption = DEFAULT_COLLECTION,
    style: Annotated[
        Style, typer.Option("--style", help="changes_since_last: what is new since the last version.")
    ] = "summary",
    prompt: Annotated[
        str, typer.Option("--prompt", help="Own instructions, with {language}, {length}, {title}.")
    ] = "",
    document: Annotated[
        list[str] | None, typer.Option("--document", metavar="ID", help="Only this document; repeatable.")
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", metavar="TAG", help="Only documents so tagged; repeatable.")
    ] = None,
    writer: Annotated[
        Writer, typer.Option("--writer", help="Choose sentences, or have the model write.")
    ] = "auto",
    method: Annotated[
        Method, typer.Option("--method", help="refine: one long narrative, in its order.")
    ] = "map_reduce",
    length: Annotated[Length, typer.Option("--length", help="About 100, 300 or 1,000 tokens.")] = "paragraph",
    tokens: Annotated[
        int | None, typer.Option("--length-tokens", metavar="N", help="In place of --length.")
    ] = None,
    language: Annotated[Language, typer.Option("--language", help="auto: the documents' own.")] = "auto",
    unsupported: Annotated[
        Unsupported, typer.Option("--unsupported", help="What becomes of statements without support.")
    ] = "flag",
    max_cost: Annotated[
        str | None, typer.Option("--max-cost", metavar="AMOUNT", help="Stop before it costs more.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", metavar="N", help="Stop before it takes more.")
    ] = None,
    quote: Annotated[bool, typer.Option("--quote", help="Only say what it would take and cost.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is made.")] = True,
    form: FormatOption = "markdown",
    output: OutputOption = None,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Summarize a collection's documents: every page is read, every statement cited."""
    from cli.lookup import require_collection
    from cli.quotes import show_quote
    from cli.summaries import follow, write

    options: dict[str, Any] = {
        "filter": {"document_ids": document or [], "tags": tag or []},
        "style": style,
        "prompt": prompt,
        "writer": writer,
        "method": method,
        "length": length,
        "length_tokens": tokens,
        "language": language,
        "unsupported": unsupported,
        "max_cost": max_cost,
        "max_tokens": max_tokens,
    }
    with connect(context, url=url, key=key) as client:
        target = require_collection(client, collection)
        if quote:
            show_quote(client.quote_summary(target["id"], **options), as_json=form == "json")
            return
        summary = client.create_summary(target["id"], **options)
        say(
            f"{summary['id']}, version {summary['version']}: {summary['coverage']['num_documents']} documents of "
            f"{target['name']!r}. It goes on without this command; `longleaf jobs cancel {summary['job_id']}` "
            "stops it."
        )
        if not wait:
            return
        summary = follow(client, summary, err())
        if summary["status"] != "succeeded":
            say(summary["error"]["detail"] if summary["error"] else summary["status"], style="red")
            raise typer.Exit(1)
        write(client, summary, form, output)
        cost = format_money(summary["cost"]["amount"], summary["cost"]["currency"])
        say(
            f"{summary['coverage']['num_pages_read']} of {summary['coverage']['num_pages']} pages read; "
            f"{summary['num_computed']} of {summary['num_nodes']} nodes made now; "
            f"{summary['num_tokens']:,} tokens, {cost}."
        )


@app.command("list")
def list_summaries(
    context: typer.Context,
    versions_of: Annotated[
        str | None, typer.Option("--versions-of", metavar="ID", help="Only runs of the same summary.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 50,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """List summaries, newest first."""
    with connect(context, url=url, key=key) as client:
        found = list(islice(client.list_summaries(versions_of=versions_of), limit))
    if as_json:
        print_json({"items": found})
        return
    rows = [
        (
            each["id"],
            each["parameters"]["style"],
            f"{each['version']}",
            each["outcome"] or each["status"],
            f"{each['coverage']['num_pages_read']} of {each['coverage']['num_pages']}",
            f"{each['num_tokens']:,}",
            format_moment(each["created_at"]),
        )
        for each in found
    ]
    names = ("id", "style", "version", "status", "pages", "tokens", "created")
    print_table(names, rows, right=("version", "pages", "tokens"))


@app.command("show")
def show_summary(
    context: typer.Context,
    summary_id: SummaryArgument,
    form: FormatOption = "markdown",
    output: OutputOption = None,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Show a summary with its sources and what was read."""
    from cli.summaries import write

    with connect(context, url=url, key=key) as client:
        write(client, client.get_summary(summary_id), form, output)


@app.command("diff")
def compare_summaries(
    context: typer.Context,
    summary_id: SummaryArgument,
    against: Annotated[
        str | None, typer.Option("--against", metavar="ID", help="Another run; default: the version before.")
    ] = None,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Show what a run says that another did not."""
    from cli.summaries import print_diff

    with connect(context, url=url, key=key) as client:
        found = client.compare_summaries(summary_id, against=against)
    if as_json:
        print_json(found)
    else:
        print_diff(found)
