"""`longleaf doctor` and `longleaf doctor answer`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import JsonOption, KeyOption, UrlOption, connect, settings_of
from cli.output import out, print_json

app = typer.Typer(help="Look at what is stored and served, or at one answer.", invoke_without_command=True)

_STYLES = {"ok": ("✓", "green"), "away": ("·", "yellow"), "repaired": ("✓", "cyan"), "fault": ("✗", "red")}
_CHECK_STYLES = {
    "ok": ("✓", "green"),
    "unknown": ("·", "dim"),
    "look": ("!", "yellow"),
    "wrong": ("✗", "red"),
}


@app.callback()
def doctor(
    context: typer.Context,
    repair: Annotated[bool, typer.Option("--repair", help="Mend what can be mended.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare SQL, FAISS, BM25 and files, look at models and services, and mend on request.

    Ends with 1 if a fault is left. `longleaf doctor answer ID` looks at one answer instead.
    """
    from rich.text import Text

    if context.invoked_subcommand is not None:
        return
    from cli.doctor import examine

    findings = []
    for finding in examine(settings_of(context), repair=repair):
        findings.append(finding)
        if as_json:
            continue
        mark, style = _STYLES[finding.verdict]
        out().print(
            Text(f"{mark} {finding.subject}: {finding.detail} {finding.remedy}".rstrip(), style=style),
            soft_wrap=True,
        )
    num_faults = sum(finding.verdict == "fault" for finding in findings)
    if as_json:
        print_json({"num_faults": num_faults, "findings": [finding.to_json() for finding in findings]})
    if num_faults:
        raise typer.Exit(1)


@app.command("answer")
def examine_answer(
    context: typer.Context,
    answer_id: Annotated[str, typer.Argument(metavar="ANSWER")],
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Walk the usual checklist for a strange answer, and say what looks wrong and what to do.

    Tokenization, sampling, context, support, attention, stop conditions, memory, entropy. Ends with
    1 if something very likely is the reason. Works from afar.
    """
    from rich.text import Text

    from cli.answer_checklist import check_answer

    with connect(context, url=url, key=key) as client:
        answer = client.get_answer(answer_id)
        checks = check_answer(answer, client.get_trace(answer_id))
    num_wrong = sum(check.verdict == "wrong" for check in checks)
    if as_json:
        print_json({"num_wrong": num_wrong, "checks": [check.to_json() for check in checks]})
    else:
        for check in checks:
            mark, style = _CHECK_STYLES[check.verdict]
            line = f"{mark} {check.subject}: {check.detail}."
            out().print(Text(f"{line} {check.remedy}".rstrip(), style=style), soft_wrap=True)
    if num_wrong:
        raise typer.Exit(1)
