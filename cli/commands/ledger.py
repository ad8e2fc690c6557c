"""`longleaf costs entries`, `correct` and `reconcile`, beside the report that `longleaf costs` is."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

import typer

from cli.commands.costs import costs, invoice, savings, stored, top
from cli.options import JsonOption, KeyOption, UrlOption, connect
from cli.output import format_moment, format_money, print_json, print_table, say

ALARMED = 2
"""Exit status where the ledger and the engines differ by more than can be explained."""

app = typer.Typer(help="What was consumed and what it cost.", invoke_without_command=True)
app.callback()(costs)
app.command("top")(top)
app.command("savings")(savings)
app.command("invoice")(invoice)
app.command("stored")(stored)


@app.command("entries")
def entries(
    context: typer.Context,
    source: Annotated[str | None, typer.Option("--source", help="Of this answer, batch or entry.")] = None,
    job: Annotated[str | None, typer.Option("--job", metavar="ID", help="Of this job.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most entries to print.")] = 50,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """The ledger's entries, newest first."""
    with connect(context, url=url, key=key) as client:
        found = list(islice(client.list_ledger(source=source, job_id=job), limit))
    if as_json:
        print_json({"items": found})
        return
    rows = [
        (
            entry["id"],
            format_moment(entry["created_at"]),
            entry["stage"],
            entry["model"],
            f"{entry['num_tokens']:,}",
            format_money(entry["cost"], entry["currency"]),
            "billed" if entry["billed"] else "burned",
            entry["reason"] or "",
        )
        for entry in found
    ]
    columns = ("id", "created", "stage", "model", "tokens", "cost", "bill", "reason")
    print_table(columns, rows, right=("tokens", "cost"))


@app.command("correct")
def correct(
    context: typer.Context,
    entry_id: Annotated[str, typer.Argument(metavar="ENTRY")],
    reason: Annotated[str, typer.Option("--reason", help="What was wrong.")],
    tokens: Annotated[int, typer.Option("--tokens", help="Added to the count: -120 takes back.")] = 0,
    cost: Annotated[str | None, typer.Option("--cost", help="Added to the cost; else the tokens'.")] = None,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Correct an entry by another one. For the operator."""
    with connect(context, url=url, key=key) as client:
        made = client.correct_ledger_entry(entry_id, reason=reason, num_tokens=tokens, cost=cost)
    if as_json:
        print_json(made)
    else:
        amount = format_money(made["cost"], made["currency"])
        say(f"{made['id']} corrects {entry_id} by {made['num_tokens']:,} tokens, {amount}.")


@app.command("reconcile")
def reconcile(
    context: typer.Context,
    start: Annotated[str | None, typer.Option("--from", metavar="MOMENT", help="With its zone.")] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="MOMENT", help="Default: now.")] = None,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Hold the ledger against the engines' own counters; exits with 2 if they differ beyond 0.1 %."""
    with connect(context, url=url, key=key) as client:
        found = client.get_reconciliation(start=start, end=end)
    if as_json:
        print_json(found)
    else:
        for model in found["models"]:
            _print_model(model)
    if found["is_alarming"]:
        raise typer.Exit(ALARMED)


def _print_model(model: dict[str, Any]) -> None:
    rows = [
        (
            name,
            f"{each['engine']:,}",
            f"{each['ledger']:,}",
            f"{model['billed'][name]:,}",
            f"{sum(tokens[name] for tokens in model['burned'].values()):,}",
            f"{each['difference']:,}",
            f"{each['unexplained']:,}",
            f"{each['share']:.3%}",
        )
        for name, each in model["counters"].items()
    ]
    columns = ("tokens", "engines", "ledger", "billed", "burned", "difference", "unexplained", "share")
    if rows:
        print_table(columns, rows, right=columns[1:])
    period = f"{format_moment(model['compared_from'])} to {format_moment(model['compared_to'])}"
    verdict = "ALARM" if model["is_alarming"] else "agrees" if rows else "not compared"
    say(f"{model['model']}: {verdict}, {period}." if rows else f"{model['model']}: {verdict}.")
    for reason, tokens in model["burned"].items():
        say(f"  burned, {reason}: {tokens['prompt']:,} of prompts, {tokens['generation']:,} written")
    for note in model["notes"]:
        say(f"  {note}")
