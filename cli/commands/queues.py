"""`longleaf queues`: the operator's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import JsonOption, KeyOption, UrlOption, connect
from cli.output import format_moment, print_json, print_table, say

if TYPE_CHECKING:
    from client.records import Queue

app = typer.Typer(help="Queues of jobs: what waits and runs, and pausing them.", no_args_is_help=True)
NameArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="interactive, ingest or batch.")]
TenantOption = Annotated[str | None, typer.Option("--tenant", metavar="ID", help="Only this tenant's jobs.")]


@app.command("list")
def list_queues(
    context: typer.Context, as_json: JsonOption = False, url: UrlOption = "", key: KeyOption = ""
) -> None:
    """Show what waits and runs in each queue."""
    with connect(context, url=url, key=key) as client:
        queues = client.list_queues()
    if as_json:
        print_json({"items": queues})
        return
    rows = [(each["name"], each["num_queued"], each["num_running"], _pauses(each)) for each in queues]
    print_table(("queue", "queued", "running", "paused"), rows, right=("queued", "running"))


@app.command("pause")
def pause_queue(
    context: typer.Context,
    name: NameArgument,
    tenant: TenantOption = None,
    reason: Annotated[str, typer.Option("--reason", help="For those who wonder.")] = "",
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Let no job of a queue begin; what runs ends, or yields and waits."""
    with connect(context, url=url, key=key) as client:
        queue = client.pause_queue(name, tenant_id=tenant, reason=reason)
    say(f"{queue['name']} is paused: {_pauses(queue)}. {queue['num_running']} still run.")


@app.command("resume")
def resume_queue(
    context: typer.Context,
    name: NameArgument,
    tenant: TenantOption = None,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Let its jobs begin again."""
    with connect(context, url=url, key=key) as client:
        queue = client.resume_queue(name, tenant_id=tenant)
    left = _pauses(queue)
    say(f"{queue['name']} goes on." + (f" Still paused: {left}." if left else ""))


def _pauses(queue: Queue) -> str:
    return ", ".join(
        f"{each['tenant_id'] or 'everybody'} since {format_moment(each['paused_at'])}"
        + (f" ({each['reason']})" if each["reason"] else "")
        for each in queue["pauses"]
    )
