"""What happens to a stack, one line an event."""

from __future__ import annotations

import contextlib

from rich.console import Console
from rich.text import Text

from cli.output import format_seconds
from embedded.processes import ComponentEvent

_WIDTH = 12
_MARKS = {
    "starting": ("·", "dim"),
    "progress": (" ", "dim"),
    "ready": ("✓", "green"),
    "died": ("!", "yellow"),
    "restarting": ("·", "yellow"),
    "failed": ("✗", "red"),
    "stopping": ("·", "dim"),
    "stopped": ("✓", "dim"),
}


class StatusLines:
    """Prints events; an `OnEvent`. A console that is gone (a closed terminal) is no fault."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, event: ComponentEvent) -> None:
        mark, style = _MARKS[event.kind]
        line = Text(f"{mark} {event.component:<{_WIDTH}} {describe(event)}", style=style)
        # Stopping must go on when nobody can read about it any more.
        with contextlib.suppress(OSError, ValueError):
            self._console.print(line, no_wrap=True, crop=True, overflow="ellipsis")


def describe(event: ComponentEvent) -> str:
    """An event in words."""
    match event.kind:
        case "starting" | "restarting":
            return "starting…"
        case "ready":
            return f"ready in {event.seconds:.1f} s"
        case "stopping":
            return "stopping…"
        case "stopped":
            return f"stopped in {format_seconds(event.seconds)}"
        case _:
            return event.detail
