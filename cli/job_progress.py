"""A job that goes through many things, as the command line follows it."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from client import Job, LongleafClient


def follow_job(client: LongleafClient, job_id: str, noun: str, *, total: int, console: Console) -> None:
    """Wait until the job has ended, however it ends; its `{noun}_done` of `total` go to `console`."""
    progress = Progress(
        TextColumn(noun),
        BarColumn(bar_width=24),
        TextColumn("{task.completed} of {task.total}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with progress:
        bar = progress.add_task("", total=total)

        def show(job: Job) -> None:
            progress.update(bar, completed=job["progress"].get(f"{noun}_done", 0))

        client.wait_for_job(job_id, on_progress=show)
