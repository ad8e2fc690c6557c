"""Which server to call, and with which key."""

from __future__ import annotations

from dataclasses import dataclass, field

from core.errors import Misconfigured
from core.settings import Settings
from embedded.credentials import find_credentials


@dataclass(frozen=True, slots=True)
class Connection:
    url: str
    key: str = field(repr=False)


def resolve_connection(settings: Settings, *, url: str = "", key: str = "") -> Connection:
    """Options first, then settings, then what `longleaf up` saved in the data folder.

    A saved key goes to the server that it was saved for and to no other.

    Raises:
        Misconfigured: no key is known for the server.
    """
    saved = find_credentials(settings.root)
    own_url = saved.url if saved else settings.api_url
    chosen_url = (url or settings.client_url or own_url).rstrip("/")
    chosen_key = key or settings.client_key
    if not chosen_key and saved is not None and chosen_url == saved.url.rstrip("/"):
        chosen_key = saved.key
    if not chosen_key:
        raise Misconfigured(
            f"There is no API key for {chosen_url}.",
            remedy="Start Longleaf here with `longleaf up`, or give one with --key or LONGLEAF_CLIENT_KEY.",
        )
    return Connection(chosen_url, chosen_key)
