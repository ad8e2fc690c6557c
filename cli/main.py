"""The command `longleaf`."""

from __future__ import annotations

import sys
from importlib.metadata import version
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

from cli.commands import (
    ask,
    batches,
    bench,
    budgets,
    chat,
    collections,
    conversations,
    demo,
    doctor,
    documents,
    evaluations,
    extractions,
    jobs,
    keys,
    ledger,
    models,
    plan,
    prices,
    queues,
    schedules,
    summaries,
    tenants,
    trace,
    up,
    upload,
    webhooks,
)
from cli.errors import ReportingGroup
from cli.options import Home

app = typer.Typer(
    name="longleaf",
    help="Answers over long documents, in English and Chinese, with citations and what they cost.",
    cls=ReportingGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"longleaf {version('longleaf')}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    home: Annotated[
        Path | None,
        typer.Option("--home", metavar="DIR", help="Data folder; default: LONGLEAF_HOME, or ~/.longleaf."),
    ] = None,
) -> None:
    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a character shows `?` for it; it must not end the command.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    context.obj = Home(home)


app.command("up")(up.up)
app.command("demo")(demo.demo)
app.command("upload")(upload.upload)
app.command("ask")(ask.ask)
app.command("chat")(chat.chat)
app.command("summarize")(summaries.summarize)
app.command("plan")(plan.plan)
app.command("trace")(trace.trace)
app.command("bench")(bench.bench)
app.add_typer(batches.app, name="batch")
app.add_typer(ledger.app, name="costs")
app.add_typer(prices.app, name="prices")
app.add_typer(budgets.app, name="budgets")
app.add_typer(collections.app, name="collections")
app.add_typer(conversations.app, name="conversations")
app.add_typer(documents.app, name="documents")
app.add_typer(doctor.app, name="doctor")
app.add_typer(evaluations.app, name="eval")
app.add_typer(extractions.app, name="extract")
app.add_typer(jobs.app, name="jobs")
app.add_typer(schedules.app, name="schedules")
app.add_typer(summaries.app, name="summaries")
app.add_typer(keys.app, name="keys")
app.add_typer(queues.app, name="queues")
app.add_typer(tenants.app, name="tenants")
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(models.app, name="models")
