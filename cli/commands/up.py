"""`longleaf up`."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import settings_of
from cli.output import out, say

if TYPE_CHECKING:
    from embedded.stack import EmbeddedStack

HomeOption = Annotated[Path | None, typer.Option("--home", metavar="DIR", help="Data folder.")]


def up(
    context: typer.Context,
    home: HomeOption = None,
    engine: Annotated[
        bool, typer.Option("--engine/--no-engine", help="Without one, answers are extractive only.")
    ] = True,
) -> None:
    """Run everything on this machine, in this terminal. Ctrl-C stops it; twice, at once."""
    from cli.interruption import stop_on_signals
    from cli.status_lines import StatusLines
    from embedded.stack import EmbeddedStack

    settings = settings_of(context, home)
    stack = EmbeddedStack(settings, with_engine=engine, on_event=StatusLines(out()))
    with stop_on_signals(stack.abandon):
        try:
            stack.start()
            stack.wait_ready()
            _show_welcome(stack)
            threading.Event().wait()
        except KeyboardInterrupt:
            say("\nStopping. Ctrl-C again ends everything at once.")
        finally:
            stack.stop()


def _show_welcome(stack: EmbeddedStack) -> None:
    from rich.panel import Panel
    from rich.text import Text

    home = stack.settings.root
    lines = [
        f"API      {stack.url}/v1",
        f"Docs     {stack.url}/docs",
        f"Key      in {home / 'credentials.json'}",
        f"Logs     in {stack.settings.log_dir}",
        "",
        "Upload   longleaf upload FILE_OR_FOLDER --collection papers",
        'Ask      longleaf ask "What does it say about …?" --collection papers',
        "Costs    longleaf costs",
    ]
    text = Text("\n".join(lines), overflow="fold")
    out().print(Panel(text, title="Longleaf is ready", title_align="left", expand=False))
    if stack.key_is_new:
        # Outside the box, whose border would be copied along, and shown this once.
        out().print("Key of the default tenant, shown this once (the commands above know it):")
        out().print(Text(stack.key, style="bold"), soft_wrap=True)
