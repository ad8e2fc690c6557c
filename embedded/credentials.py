"""`credentials.json` in the data folder: how the command line reaches the local server."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

from core.errors import Misconfigured


@dataclass(frozen=True, slots=True)
class Credentials:
    """Where a server answers, and a key of the default tenant."""

    url: str
    key: str = field(repr=False)
    tenant_id: str


def credentials_path(home: Path) -> Path:
    return home / "credentials.json"


def find_credentials(home: Path) -> Credentials | None:
    """What `longleaf up` saved there, None where it never ran.

    Raises:
        Misconfigured: the file cannot be read as what it should be.
    """
    path = credentials_path(home)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return Credentials(url=document["url"], key=document["key"], tenant_id=document["tenant_id"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Misconfigured(
            f"{path} cannot be read: {error}.",
            remedy="Remove it; the next `longleaf up` issues a new key.",
        ) from error


def save_credentials(credentials: Credentials, home: Path) -> None:
    """Write them for the owner's eyes only (mode 0600), whole or not at all."""
    path = credentials_path(home)
    number, temporary = tempfile.mkstemp(prefix=".credentials-", dir=home)  # made with mode 0600
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            json.dump(asdict(credentials), file, indent=2)
            file.write("\n")
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
