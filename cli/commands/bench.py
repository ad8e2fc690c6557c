"""`longleaf bench`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from cli.options import settings_of


def bench(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="One of `longleaf bench --list`.")] = "",
    json_path: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write figures here.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A smaller run with the same figures.")] = False,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Evaluation sets.")] = None,
    extra: Annotated[
        list[str] | None,
        typer.Option("--extra", metavar="KEY=VALUE", help="An option of one benchmark only; repeatable."),
    ] = None,
    list_names: Annotated[bool, typer.Option("--list", help="Print the names.")] = False,
) -> None:
    """Run a benchmark on the real parts and print its figures."""
    arguments = ["--home", str(settings_of(context).root), *([name] if name else ["--list"])]
    arguments += ["--list"] if list_names else []
    arguments += ["--json", str(json_path)] if json_path else []
    arguments += ["--quick"] if quick else []
    arguments += ["--data", str(data)] if data else []
    arguments += [part for pair in extra or [] for part in ("--extra", pair)]
    # A process of its own: benchmarks are another edge, and measure best without our baggage.
    command = [sys.executable, "-m", "bench", *arguments]
    raise typer.Exit(subprocess.run(command, check=False).returncode)
