"""Brings a database to the schema that this version of Longleaf expects."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from core.errors import Misconfigured
from storage.database import Database

_SCRIPTS = Path(__file__).parent / "migrations"
_ADVISORY_LOCK = 0x6C6F6E676C656166  # "longleaf"


def alembic_config(connection: Connection) -> Config:
    """Alembic's configuration, with scripts found beside this file wherever it is installed."""
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def list_revisions() -> tuple[str, ...]:
    """All revisions this version knows, oldest first."""
    scripts = ScriptDirectory(str(_SCRIPTS))
    return tuple(reversed([script.revision for script in scripts.walk_revisions()]))


def current_revision(database: Database) -> str | None:
    """The revision the database is at; None: nothing was ever migrated."""
    with database.engine.connect() as connection:
        return _revision(connection)


def pending(database: Database) -> tuple[str, ...]:
    """The revisions that `upgrade` would apply, oldest first.

    Raises:
        Misconfigured: a newer Longleaf has migrated the database.
    """
    return _after(current_revision(database))


def upgrade(database: Database) -> tuple[str, ...]:
    """Apply what is pending, all or nothing; the revisions applied, oldest first.

    Processes that start at once wait for one another: one applies, the others find nothing to do.

    Raises:
        Misconfigured: a newer Longleaf has migrated the database.
    """
    with _exclusive(database) as connection:
        revisions = _after(_revision(connection))
        if revisions:
            command.upgrade(alembic_config(connection), "head")
        return revisions


def downgrade(database: Database, revision: str) -> None:
    """Go back to `revision` (`base`: drop everything). Data that it has no place for is lost."""
    with _exclusive(database) as connection:
        command.downgrade(alembic_config(connection), revision)


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _after(revision: str | None) -> tuple[str, ...]:
    known = list_revisions()
    if revision is None:
        return known
    if revision not in known:
        raise Misconfigured(
            f"The database is at revision {revision}, which this version of Longleaf does not know.",
            remedy="A newer Longleaf has migrated it: upgrade Longleaf, or restore a backup.",
            revision=revision,
        )
    return known[known.index(revision) + 1 :]


@contextmanager
def _exclusive(database: Database) -> Iterator[Connection]:
    """A connection in a transaction that no other migration can share, committed at the end."""
    with database.engine.connect() as connection:
        if database.is_sqlite:
            connection = connection.execution_options(longleaf_begin="IMMEDIATE")
            with _foreign_keys_off(connection), connection.begin():
                yield connection
                _refuse_orphans(connection)
            return
        with connection.begin():
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
            yield connection


@contextmanager
def _foreign_keys_off(connection: Connection) -> Iterator[None]:
    """Without this, a batch operation that rebuilds a parent table would delete its children.

    SQLite ignores the pragma inside a transaction, so it goes to the driver before ours begins.
    """
    driver = connection.connection.cursor()
    driver.execute("PRAGMA foreign_keys=OFF")
    try:
        yield
    finally:
        driver.execute("PRAGMA foreign_keys=ON")
        driver.close()


def _refuse_orphans(connection: Connection) -> None:
    orphan = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
    if orphan is not None:
        raise Misconfigured(
            f"A migration would leave rows of {orphan[0]} without their {orphan[2]}; nothing was changed.",
            remedy="Report this with the revision numbers; the database is as it was.",
        )
