"""Options that several commands take, and what they lead to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from client import LongleafClient
    from core.settings import Settings

UrlOption = Annotated[str, typer.Option("--url", metavar="URL", help="Server; default: the local one.")]
KeyOption = Annotated[
    str, typer.Option("--key", metavar="KEY", help="API key; default: the one `longleaf up` saved.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
CollectionOption = Annotated[str, typer.Option("--collection", "-c", metavar="NAME", help="By name.")]
TenantOption = Annotated[str, typer.Option("--tenant", metavar="NAME", help="Tenant, by name or id.")]
DEFAULT_COLLECTION = "default"


@dataclass(frozen=True, slots=True)
class Home:
    """The data folder given before the command, if any."""

    path: Path | None

    def settings(self, path: Path | None = None, **overrides: object) -> Settings:
        """Settings, with the folder given after the command before the one given in front of it."""
        from core.settings import load_settings

        chosen = path or self.path
        if chosen is not None:
            overrides["home"] = chosen
        return load_settings(**overrides)


def settings_of(context: typer.Context, home: Path | None = None) -> Settings:
    """The settings of this invocation."""
    given = context.find_object(Home)
    return (given or Home(None)).settings(home)


def connect(context: typer.Context, *, url: str, key: str, timeout: float = 30.0) -> LongleafClient:
    """A client of the server that the options, the settings or `longleaf up` name, in this order.

    Raises:
        Misconfigured: no key is known.
    """
    from cli.connection import resolve_connection
    from client import LongleafClient

    connection = resolve_connection(settings_of(context), url=url, key=key)
    return LongleafClient(connection.url, connection.key, timeout)
