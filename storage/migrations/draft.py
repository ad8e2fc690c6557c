"""`python -m storage.migrations.draft "what changes"` drafts the next migration from the models.

The draft compares the models with a scratch SQLite database at the newest revision. Review it:
triggers, partial indexes and moves of data are not seen by the comparison.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from alembic import command

from storage.database import Database
from storage.migrate import alembic_config, list_revisions, upgrade


def draft(message: str, *, directory: Path) -> str:
    """Path of the migration written for what the models have and the migrations lack.

    Args:
        directory: scratch space for the database compared with.
    """
    database = Database(f"sqlite:///{directory / 'draft.db'}")
    try:
        upgrade(database)
        number = f"{len(list_revisions()) + 1:04d}"
        with database.engine.connect() as connection:
            script = command.revision(
                alembic_config(connection), message=message, autogenerate=True, rev_id=number
            )
    finally:
        database.dispose()
    if script is None or isinstance(script, list):
        raise RuntimeError("Alembic wrote no single script")
    return script.path


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        sys.stdout.write(draft(" ".join(sys.argv[1:]), directory=Path(scratch)) + "\n")
