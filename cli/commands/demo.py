"""`longleaf demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.options import Home


def demo(
    context: typer.Context,
    home: Annotated[
        Path, typer.Option("--home", metavar="DIR", help="Data folder, kept for the next run.")
    ] = Path(".demo-home"),
) -> None:
    """Start everything, upload long documents in English and Chinese, ask, show costs, stop."""
    from cli.demo import run_demo

    given = context.find_object(Home) or Home(None)
    run_demo(given.settings(home))
