"""`longleaf jobs`."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import JsonOption, KeyOption, UrlOption, connect
from cli.output import format_moment, print_json, print_table, say

if TYPE_CHECKING:
    from client import Job

app = typer.Typer(help="Jobs: uploads and questions in the queue, running, and done.", no_args_is_help=True)
JobArgument = Annotated[str, typer.Argument(metavar="ID")]


@app.command("list")
def list_jobs(
    context: typer.Context,
    status: Annotated[str | None, typer.Option("--status", help="queued, running, succeeded, …")] = None,
    kind: Annotated[str | None, typer.Option("--kind", help="ingest or answer.")] = None,
    parked: Annotated[
        bool,
        typer.Option("--parked", help="Only those given up because their workers died or crashed each time."),
    ] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 50,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """List jobs."""
    with connect(context, url=url, key=key) as client:
        jobs = list(islice(client.list_jobs(status=status, kind=kind, parked=parked), limit))
    if as_json:
        print_json({"items": jobs})
        return
    rows = [
        (
            job["id"],
            job["kind"],
            job["status"],
            _progress(job),
            job["attempt"],
            format_moment(job["created_at"]),
        )
        for job in jobs
    ]
    print_table(("job", "kind", "status", "progress", "attempt", "created"), rows, right=("attempt",))


@app.command("show")
def show_job(
    context: typer.Context,
    job_id: JobArgument,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Show a job and its files."""
    with connect(context, url=url, key=key) as client:
        job = client.get_job(job_id)
    if as_json:
        print_json(job)
        return
    say(f"{job['id']}: {job['kind']}, {job['status']}, attempt {job['attempt']}, {_progress(job)}")
    if job["error"]:
        say(job["error"]["detail"], style="red")
    if job.get("files"):
        rows = [
            (file["name"], file["status"], file["error"]["detail"] if file["error"] else "")
            for file in job["files"]
        ]
        print_table(("file", "status", "reason"), rows)


@app.command("cancel")
def cancel_job(
    context: typer.Context,
    job_id: JobArgument,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Cancel a job: at once while it is queued, at its next checkpoint while it runs."""
    with connect(context, url=url, key=key) as client:
        job = client.cancel_job(job_id)
    if as_json:
        print_json(job)
    else:
        say(f"{job['id']} is {job['status']}.")


@app.command("retry")
def retry_job(
    context: typer.Context,
    job_id: JobArgument,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Try a job again that failed or was cancelled."""
    with connect(context, url=url, key=key) as client:
        job = client.retry_job(job_id)
    if as_json:
        print_json(job)
    else:
        say(f"{job['id']} is {job['status']}; {job['attempt']} attempts so far.")


@app.command("watch")
def watch_job(
    context: typer.Context,
    job_id: JobArgument,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Follow a job until it has ended; a line for each change. Exits with 1 unless it succeeded."""
    job: Job | None = None
    with connect(context, url=url, key=key) as client:
        for job in client.watch_job(job_id):
            if as_json:
                print_json(job)
            else:
                say(f"{job['status']}, attempt {job['attempt']}  {_progress(job)}".rstrip())
    if job is not None and job["error"]:
        say(job["error"]["detail"], style="red")
    if job is None or job["status"] != "succeeded":
        raise typer.Exit(1)


def _progress(job: Job) -> str:
    progress = job["progress"]
    if "files_total" not in progress:
        return ""
    return f"{progress.get('files_done', 0)} of {progress['files_total']} files"
