"""`longleaf schedules`."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cli.options import JsonOption, KeyOption, UrlOption, connect
from cli.output import format_moment, format_money, print_json, print_table, say

if TYPE_CHECKING:
    from client import Schedule, ScheduleRun, Slot

app = typer.Typer(help="Work that begins by itself when it is due.", no_args_is_help=True)

CatchUp = Literal["skip", "latest", "all"]
Overlap = Literal["skip", "queue", "cancel_previous"]
ScheduleArgument = Annotated[str, typer.Argument(metavar="ID")]
Count = Annotated[int, typer.Option("--count", min=1, max=100, help="Slots to show.")]
Cron = Annotated[str | None, typer.Option("--cron", help="Such as '30 6 * * MON-FRI'.")]
TimeZone = Annotated[str, typer.Option("--time-zone", help="Whose clocks --cron means.")]
Every = Annotated[int | None, typer.Option("--every", metavar="SECONDS", help="Or so long apart.")]
Start = Annotated[str | None, typer.Option("--start", metavar="WHEN", help="ISO 8601 with its zone.")]
End = Annotated[str | None, typer.Option("--end", metavar="WHEN", help="Due no more from then on.")]


@app.command("add")
def add_schedule(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="For people.")],
    action: Annotated[str, typer.Option("--action", help="What it does: extraction, evaluation, …")],
    parameters: Annotated[
        Path,
        typer.Option(
            "--parameters", metavar="FILE", help="JSON: the body of the route that does it at once."
        ),
    ],
    collection: Annotated[
        str, typer.Option("--collection", "-c", metavar="NAME", help="Put in as `collection_id`.")
    ] = "",
    cron: Cron = None,
    time_zone: TimeZone = "UTC",
    every: Every = None,
    start: Start = None,
    end: End = None,
    catch_up: Annotated[
        CatchUp, typer.Option("--catch-up", help="Of slots that were missed while nothing ran.")
    ] = "latest",
    overlap: Annotated[
        Overlap, typer.Option("--overlap", help="Where the run before is still at work.")
    ] = "skip",
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Make a schedule."""
    from cli.lookup import require_collection

    body = _read(parameters)
    with connect(context, url=url, key=key) as client:
        if collection:
            body["collection_id"] = require_collection(client, collection)["id"]
        made = client.create_schedule(
            name,
            action,
            body,
            cron=cron,
            time_zone=time_zone,
            every_seconds=every,
            start_at=start,
            end_at=end,
            catch_up=catch_up,
            overlap=overlap,
        )
    if as_json:
        print_json(made)
    else:
        say(f"{made['id']}: {made['name']!r} is due next at {format_moment(made['next_at'])}.")


@app.command("preview")
def preview(
    context: typer.Context,
    cron: Cron = None,
    time_zone: TimeZone = "UTC",
    every: Every = None,
    start: Start = None,
    end: End = None,
    count: Count = 10,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Show when a schedule would be due; nothing is made."""
    with connect(context, url=url, key=key) as client:
        slots = client.preview_schedule(
            cron=cron, time_zone=time_zone, every_seconds=every, start_at=start, end_at=end, count=count
        )
    _print_slots(slots, as_json=as_json)


@app.command("list")
def list_schedules(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 50,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """List schedules, newest first."""
    with connect(context, url=url, key=key) as client:
        found = list(islice(client.list_schedules(), limit))
    if as_json:
        print_json({"items": found})
        return
    rows = [(each["id"], each["name"], each["action"], _times(each), _due(each)) for each in found]
    print_table(("id", "name", "action", "when", "next"), rows)


@app.command("show")
def show_schedule(
    context: typer.Context,
    schedule_id: ScheduleArgument,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Show a schedule, and why it is paused."""
    with connect(context, url=url, key=key) as client:
        found = client.get_schedule(schedule_id)
    _print_schedule(found, as_json=as_json)


@app.command("pause")
def pause_schedule(
    context: typer.Context,
    schedule_id: ScheduleArgument,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Have a schedule begin nothing; what it has begun goes on."""
    with connect(context, url=url, key=key) as client:
        changed = client.change_schedule(schedule_id, paused=True)
    _print_schedule(changed, as_json=as_json)


@app.command("resume")
def resume_schedule(
    context: typer.Context,
    schedule_id: ScheduleArgument,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Have a paused schedule go on from its next slot; those that passed are not made up for."""
    with connect(context, url=url, key=key) as client:
        changed = client.change_schedule(schedule_id, paused=False)
    _print_schedule(changed, as_json=as_json)


@app.command("run")
def run_schedule(
    context: typer.Context,
    schedule_id: ScheduleArgument,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Have its work begin now; its slots stay as they are."""
    with connect(context, url=url, key=key) as client:
        run = client.run_schedule(schedule_id)
    if as_json:
        print_json(run)
    else:
        say(f"{run['id']} began {run['job_id']}; `longleaf jobs show {run['job_id']}` follows it.")


@app.command("next")
def list_next(
    context: typer.Context,
    schedule_id: ScheduleArgument,
    count: Count = 10,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Show when a schedule is due next."""
    with connect(context, url=url, key=key) as client:
        slots = client.list_next_slots(schedule_id, count=count)
    _print_slots(slots, as_json=as_json)


@app.command("runs")
def list_runs(
    context: typer.Context,
    schedule_id: ScheduleArgument,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 50,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Show what became of each slot, newest first: its job and cost, or why there was none."""
    with connect(context, url=url, key=key) as client:
        runs = list(islice(client.list_schedule_runs(schedule_id), limit))
    if as_json:
        print_json({"items": runs})
        return
    rows = [
        (_slot(run), run["outcome"], run["job_id"], run["status"], _costs(run), _why(run)) for run in runs
    ]
    print_table(("slot", "outcome", "job", "status", "cost", "reason"), rows, right=("cost",))


@app.command("delete")
def delete_schedule(
    context: typer.Context, schedule_id: ScheduleArgument, url: UrlOption = "", key: KeyOption = ""
) -> None:
    """Delete a schedule; what it has begun goes on."""
    with connect(context, url=url, key=key) as client:
        client.delete_schedule(schedule_id)
    say(f"{schedule_id} is deleted.")


def _read(path: Path) -> dict[str, Any]:
    import json

    from core.errors import InvalidInput

    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"{path} cannot be read as JSON: {error}.", remedy="Give a file with one JSON object."
        ) from error
    if not isinstance(read, dict):
        raise InvalidInput(f"{path} holds no JSON object.", remedy="Give a file with one JSON object.")
    return read


def _print_schedule(schedule: Schedule, *, as_json: bool) -> None:
    if as_json:
        print_json(schedule)
        return
    say(f"{schedule['id']}: {schedule['name']!r}, {schedule['action']}, {_times(schedule)}; {_due(schedule)}")
    say(f"missed slots: {schedule['catch_up']}; overlapping runs: {schedule['overlap']}")
    if schedule["pause_reason"]:
        say(schedule["pause_reason"]["detail"], style="red")


def _print_slots(slots: list[Slot], *, as_json: bool) -> None:
    if as_json:
        print_json({"items": slots})
    else:
        print_table(("local", "UTC"), [(slot["local"], format_moment(slot["at"])) for slot in slots])


def _times(schedule: Schedule) -> str:
    if schedule["cron"] is not None:
        return f"{schedule['cron']} ({schedule['time_zone']})"
    return f"every {schedule['every_seconds']:,} s"


def _due(schedule: Schedule) -> str:
    if schedule["paused"]:
        return "paused by itself" if schedule["pause_reason"] else "paused"
    return format_moment(schedule["next_at"]) or "ended"


def _slot(run: ScheduleRun) -> str:
    if run["slot_at"] is None:
        return f"now ({format_moment(run['created_at'])})"
    if run["first_slot_at"] in (None, run["slot_at"]):
        return format_moment(run["slot_at"])
    return f"{format_moment(run['first_slot_at'])} to {format_moment(run['slot_at'])}"


def _costs(run: ScheduleRun) -> str:
    return ", ".join(format_money(cost["amount"], cost["currency"]) for cost in run["costs"])


def _why(run: ScheduleRun) -> str:
    failure = run["reason"] or run["error"]
    return failure["detail"] if failure else ""
