"""A summary as the command line follows, writes and compares it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from cli.output import out, say
from client import Job, LongleafClient, Summary


def follow(client: LongleafClient, summary: Summary, console: Console) -> Summary:
    """The summary once it has ended, however it ended. Progress goes to `console`."""
    progress = Progress(
        TextColumn("pages"),
        BarColumn(bar_width=24),
        TextColumn("{task.completed} of {task.total}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with progress:
        bar = progress.add_task("", total=summary["coverage"]["num_pages"])

        def show(job: Job) -> None:
            progress.update(bar, completed=job["progress"].get("pages_done", 0))

        client.wait_for_job(summary["job_id"], on_progress=show)
    return client.get_summary(summary["id"])


def write(
    client: LongleafClient, summary: Summary, form: Literal["markdown", "html", "json"], path: Path | None
) -> None:
    """Into a file, or to standard output."""
    if form == "json":
        text = json.dumps(summary, ensure_ascii=False, indent=2) + "\n"
    else:
        text = client.render_summary(summary["id"], format=form)
    if path is None:
        sys.stdout.write(text)
    else:
        path.write_text(text, encoding="utf-8")


def print_diff(found: dict[str, Any]) -> None:
    """A line for each statement that came, went or changed."""
    lines = [("- ", text) for text in found["removed"]] + [("+ ", text) for text in found["added"]]
    for pair in found["changed"]:
        lines += [("- ", pair["before"]), ("+ ", pair["after"])]
    for mark, text in lines:
        out().print(mark + text, style="red" if mark == "- " else "green", markup=False, soft_wrap=True)
    say(f"{found['num_same']} statements stayed as they were.", style="dim")
