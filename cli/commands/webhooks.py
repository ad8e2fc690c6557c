"""`longleaf webhooks`."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import JsonOption, KeyOption, UrlOption, connect
from cli.output import format_moment, format_seconds, print_json, print_table, say

if TYPE_CHECKING:
    from client import Delivery, LongleafClient, Webhook

app = typer.Typer(help="Webhooks: URLs that are told of what happens, signed.", no_args_is_help=True)
WebhookArgument = Annotated[str, typer.Argument(metavar="ID")]
DeliveryArgument = Annotated[str, typer.Argument(metavar="DELIVERY")]
EventOption = Annotated[
    list[str] | None,
    typer.Option("--event", metavar="TYPE", help="Such as job.finished; repeatable. Left out: every event."),
]
TEST_WAIT_SECONDS = 20.0


@app.command("create")
def create_webhook(
    context: typer.Context,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The URL to POST to.")],
    event: EventOption = None,
    description: Annotated[str, typer.Option("--description", help="For people.")] = "",
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Have events sent to a URL. Its secret is shown once."""
    with connect(context, url=url, key=key) as client:
        made = client.create_webhook(target, event_types=event or ["*"], description=description)
    if as_json:
        print_json(made)
        return
    say(f"Webhook {made['id']} to {made['url']}. Its secret, shown this once:")
    typer.echo(made["secret"])


@app.command("list")
def list_webhooks(
    context: typer.Context, as_json: JsonOption = False, url: UrlOption = "", key: KeyOption = ""
) -> None:
    """List webhooks."""
    with connect(context, url=url, key=key) as client:
        found = list(client.list_webhooks())
    if as_json:
        print_json({"items": found})
        return
    rows = [
        (each["id"], each["url"], ", ".join(each["event_types"]), _health(each), each["description"])
        for each in found
    ]
    print_table(("id", "url", "events", "state", "description"), rows)


@app.command("change")
def change_webhook(
    context: typer.Context,
    webhook_id: WebhookArgument,
    target: Annotated[str | None, typer.Option("--target", help="Another URL to POST to.")] = None,
    event: EventOption = None,
    description: Annotated[str | None, typer.Option("--description", help="For people.")] = None,
    enabled: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Start it again, or stop it.")
    ] = None,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Change where a webhook leads and what it hears of; enable or disable it."""
    with connect(context, url=url, key=key) as client:
        changed = client.change_webhook(
            webhook_id, url=target, event_types=event, description=description, enabled=enabled
        )
    if as_json:
        print_json(changed)
    else:
        say(f"{changed['id']} to {changed['url']}: {', '.join(changed['event_types'])}; {_health(changed)}")


@app.command("delete")
def delete_webhook(
    context: typer.Context, webhook_id: WebhookArgument, url: UrlOption = "", key: KeyOption = ""
) -> None:
    """Delete a webhook with its log."""
    with connect(context, url=url, key=key) as client:
        client.delete_webhook(webhook_id)
    say(f"Webhook {webhook_id} is deleted.")


@app.command("rotate")
def rotate_secret(
    context: typer.Context,
    webhook_id: WebhookArgument,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Give a webhook a new secret, shown once; the old one signs too for 24 hours."""
    with connect(context, url=url, key=key) as client:
        rotated = client.rotate_webhook_secret(webhook_id)
    if as_json:
        print_json(rotated)
        return
    say(f"Webhook {rotated['id']} has a new secret, shown this once:")
    typer.echo(rotated["secret"])


@app.command("test")
def send_test(
    context: typer.Context,
    webhook_id: WebhookArgument,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Send a webhook an event webhook.test and tell what it answered."""
    with connect(context, url=url, key=key) as client:
        _follow(client, client.test_webhook(webhook_id), as_json=as_json)


@app.command("deliveries")
def list_deliveries(
    context: typer.Context,
    webhook_id: WebhookArgument,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 50,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Show what was sent to a webhook, newest first."""
    with connect(context, url=url, key=key) as client:
        found = list(islice(client.list_deliveries(webhook_id), limit))
    if as_json:
        print_json({"items": found})
        return
    rows = [
        (
            each["id"],
            each["event_type"],
            each["status"],
            len(each["attempts"]),
            _last(each),
            format_moment(each["next_attempt_at"]),
            format_moment(each["created_at"]),
        )
        for each in found
    ]
    columns = ("id", "event", "status", "attempts", "last", "next", "created")
    print_table(columns, rows, right=("attempts",))


@app.command("redeliver")
def redeliver(
    context: typer.Context,
    webhook_id: WebhookArgument,
    delivery_id: DeliveryArgument,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Send a delivery once more, now, and tell what was answered."""
    with connect(context, url=url, key=key) as client:
        _follow(client, client.redeliver(webhook_id, delivery_id), as_json=as_json)


def _follow(client: LongleafClient, delivery: Delivery, *, as_json: bool) -> None:
    tried = client.wait_for_attempt(delivery, timeout=TEST_WAIT_SECONDS)
    if as_json:
        print_json(tried)
    else:
        say(f"{tried['id']}: {tried['status']}. {_last(tried)}")
    if tried["status"] != "succeeded":
        raise typer.Exit(1)


def _last(delivery: Delivery) -> str:
    if not delivery["attempts"]:
        return ""
    attempt = delivery["attempts"][-1]
    what = attempt["error"] or f"The receiver answered {attempt['status']}."
    return f"{what} ({format_seconds(attempt['seconds'])})"


def _health(webhook: Webhook) -> str:
    if not webhook["enabled"]:
        return webhook["disabled_reason"] or "disabled"
    return (
        f"failing since {format_moment(webhook['failing_since'])}" if webhook["failing_since"] else "enabled"
    )
