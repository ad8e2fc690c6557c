"""`longleaf keys`: the operator's, on the machine of the database."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.options import JsonOption, TenantOption, settings_of
from cli.output import format_moment, print_json, print_table, say

if TYPE_CHECKING:
    from tenancy.keys import Key

app = typer.Typer(help="API keys, issued on the machine that has the database.", no_args_is_help=True)


@app.command("create")
def create_key(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is for.")],
    scope: Annotated[
        list[str] | None, typer.Option("--scope", help="ask, ingest, reports or admin; may be repeated.")
    ] = None,
    tenant: TenantOption = "",
    expires_in_days: Annotated[
        int | None, typer.Option("--expires-in-days", min=1, max=3650, help="Left out: it never expires.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Issue a key. It is shown once. Without --scope it may ask and ingest."""
    from cli.local_database import local_database, resolve_tenant
    from core.clock import utc_now
    from core.ids import TenantId
    from tenancy.keys import issue_key

    now = utc_now()
    with local_database(settings_of(context)) as database, database.write() as session:
        issued = issue_key(
            session,
            TenantId(resolve_tenant(session, tenant).id),
            name=name,
            scopes=scope or ["ask", "ingest"],
            now=now,
            expires_at=now + timedelta(days=expires_in_days) if expires_in_days else None,
        )
    if as_json:
        print_json(_shown(issued.key) | {"key": issued.token})
    else:
        say(f"Key {issued.key.id} ({', '.join(sorted(issued.key.scopes))}), shown this once:")
        typer.echo(issued.token)


@app.command("list")
def list_keys(context: typer.Context, tenant: TenantOption = "", as_json: JsonOption = False) -> None:
    """List a tenant's keys, without their secrets."""
    from cli.local_database import all_keys, local_database, resolve_tenant
    from core.ids import TenantId

    with local_database(settings_of(context)) as database, database.read() as session:
        found = list(all_keys(session, TenantId(resolve_tenant(session, tenant).id)))
    if as_json:
        print_json({"items": [_shown(each) for each in found]})
        return
    rows = [
        (
            each.name,
            f"ll_{each.prefix}_…",
            ", ".join(sorted(each.scopes)),
            format_moment(each.expires_at),
            format_moment(each.revoked_at),
            each.id,
        )
        for each in found
    ]
    print_table(("name", "key", "scopes", "expires", "revoked", "id"), rows)


@app.command("revoke")
def revoke_key(
    context: typer.Context,
    key_id: Annotated[str, typer.Argument(metavar="ID")],
    tenant: TenantOption = "",
    as_json: JsonOption = False,
) -> None:
    """Refuse a key from now on."""
    from cli.local_database import local_database, resolve_tenant
    from core.clock import utc_now
    from core.ids import KeyId, TenantId
    from tenancy.keys import revoke_key as revoke

    with local_database(settings_of(context)) as database, database.write() as session:
        tenant_id = TenantId(resolve_tenant(session, tenant).id)
        revoked = revoke(session, tenant_id, KeyId(key_id), now=utc_now())
    if as_json:
        print_json(_shown(revoked))
    else:
        say(f"Key {revoked.id} ({revoked.name}) is revoked.")


def _shown(key: Key) -> dict[str, Any]:
    return {
        "id": key.id,
        "tenant_id": key.tenant_id,
        "name": key.name,
        "prefix": key.prefix,
        "scopes": sorted(key.scopes),
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
    }
