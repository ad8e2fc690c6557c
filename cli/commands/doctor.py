"""`longleaf doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import JsonOption, settings_of
from cli.output import out, print_json

_STYLES = {"ok": ("✓", "green"), "away": ("·", "yellow"), "repaired": ("✓", "cyan"), "fault": ("✗", "red")}


def doctor(
    context: typer.Context,
    repair: Annotated[bool, typer.Option("--repair", help="Mend what can be mended.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare SQL, FAISS, BM25 and files, look at models and services, and mend on request.

    Ends with 1 if a fault is left.
    """
    from rich.text import Text

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
