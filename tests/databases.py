"""Migrated SQLite files: migrating takes a second, copying what was migrated once takes none."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

from storage.database import Database
from storage.migrate import upgrade


def make_sqlite(path: Path) -> str:
    """URL of a migrated, empty database in a new file at `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(_migrated_file(), path)
    return f"sqlite:///{path}"


@functools.cache
def _migrated_file() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="longleaf-migrated-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = folder / "longleaf.db"
    database = Database(f"sqlite:///{file}")
    upgrade(database)
    database.dispose()  # which writes its log into the file
    return file
