"""Names to objects."""

from __future__ import annotations

from client import Collection, LongleafClient
from core.errors import NotFound


def require_collection(client: LongleafClient, name: str) -> Collection:
    """The collection of that name, or of that id.

    Raises:
        NotFound: there is none.
    """
    found = client.find_collection_by_name(name)
    if found is None and name.startswith("col_"):
        found = next((each for each in client.list_collections() if each["id"] == name), None)
    if found is None:
        raise NotFound(
            f"There is no collection named {name!r}.",
            remedy=f"`longleaf collections list` shows yours; `longleaf upload PATH -c {name}` makes one.",
        )
    return found
