from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError

from core.errors import Misconfigured
from storage.database import Database
from storage.migrate import current_revision, downgrade, list_revisions, pending, upgrade
from storage.models import Base, LedgerEntry, Price, Tenant

MakeUrl = Callable[[], str]


def test_migrations_give_what_the_models_say(database: Database) -> None:
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_indexes_and_constraints_equal_those_of_the_models_to_the_letter(
    new_database_url: MakeUrl,
) -> None:
    migrated, created = Database(new_database_url()), Database(new_database_url())
    upgrade(migrated)
    with created.engine.begin() as connection:
        Base.metadata.create_all(connection)
    try:
        with migrated.engine.connect() as ours, created.engine.connect() as theirs:
            assert _definitions(ours) == _definitions(theirs)
    finally:
        migrated.dispose()
        created.dispose()


def _definitions(connection: Connection) -> dict[str, list[str]]:
    if connection.dialect.name == "sqlite":
        query = (
            "SELECT name, sql FROM sqlite_master WHERE type IN ('table', 'index') "
            "AND sql IS NOT NULL AND name <> 'alembic_version'"
        )
    else:
        query = (
            "SELECT conname AS name, pg_get_constraintdef(oid) AS sql FROM pg_constraint "
            "WHERE connamespace = 'public'::regnamespace "
            "AND conrelid::regclass::text <> 'alembic_version' UNION ALL "
            "SELECT indexname, indexdef FROM pg_indexes "
            "WHERE schemaname = 'public' AND tablename <> 'alembic_version'"
        )
    return {name: _in_one_order(sql) for name, sql in connection.execute(text(query))}


def _in_one_order(sql: str) -> list[str]:
    """Columns and constraints, sorted: a migration adds last what a model declares anywhere. SQLite
    quotes the name of a table that a batch operation rebuilt."""
    return sorted(" ".join(sql.replace('"', "").split()).removesuffix(" )").split(", "))


def test_upgrade_applies_everything_once(empty_database: Database) -> None:
    assert current_revision(empty_database) is None
    assert pending(empty_database) == list_revisions()

    assert upgrade(empty_database) == list_revisions()

    assert current_revision(empty_database) == list_revisions()[-1]
    assert pending(empty_database) == ()
    assert upgrade(empty_database) == ()


def test_downgrade_leaves_nothing_behind_and_upgrade_works_again(empty_database: Database) -> None:
    upgrade(empty_database)

    downgrade(empty_database, "base")

    assert current_revision(empty_database) is None
    with empty_database.engine.connect() as connection:
        assert inspect(connection).get_table_names() == ["alembic_version"]
        assert _leftovers(connection) == 0
    assert upgrade(empty_database) == list_revisions()


def _leftovers(connection: Connection) -> int:
    query = (
        "SELECT count(*) FROM sqlite_master WHERE type IN ('trigger', 'index') AND sql IS NOT NULL"
        if connection.dialect.name == "sqlite"
        else "SELECT count(*) FROM pg_proc WHERE proname LIKE 'longleaf%'"
    )
    return int(connection.execute(text(query)).scalar_one())


def test_database_of_a_newer_version_is_refused(database: Database) -> None:
    with database.write() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(Misconfigured, match="9999"):
        upgrade(database)
    with pytest.raises(Misconfigured, match="upgrade Longleaf"):
        pending(database)


def test_processes_that_start_at_once_migrate_once(new_database_url: MakeUrl) -> None:
    url = new_database_url()
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(3) as pool:
        applied = pool.map(_upgrade_at, [url] * 3, chunksize=1)

    assert sorted(applied) == [(), (), list_revisions()]
    database = Database(url)
    assert pending(database) == ()
    database.dispose()


def _upgrade_at(url: str) -> tuple[str, ...]:
    database = Database(url)
    try:
        return upgrade(database)
    finally:
        database.dispose()


def test_a_failed_migration_changes_nothing(empty_database: Database) -> None:
    with empty_database.engine.begin() as connection:
        connection.execute(text("CREATE TABLE uploaded_files (id INTEGER)"))

    with pytest.raises(DBAPIError):
        upgrade(empty_database)

    with empty_database.engine.connect() as connection:
        assert inspect(connection).get_table_names() == ["uploaded_files"]


@pytest.mark.parametrize(
    "statement", ["UPDATE ledger_entries SET num_tokens = 1", "DELETE FROM ledger_entries"]
)
def test_the_database_itself_refuses_to_change_the_ledger(database: Database, statement: str) -> None:
    with database.write() as session:
        session.add(Tenant(id="ten_1", name="松林"))
        session.flush()
        session.add(_entry())

    with pytest.raises(DBAPIError, match="append-only"), database.write() as session:
        session.execute(text(statement))

    with database.read() as session:
        assert session.query(LedgerEntry).count() == 1


def test_foreign_keys_hold_after_a_migration(database: Database) -> None:
    with pytest.raises(DBAPIError), database.write() as session:
        session.add(_entry())


def test_other_tables_stay_changeable(database: Database) -> None:
    with database.write() as session:
        session.add(
            Price(
                id="pri_1",
                model="*",
                stage="decode",
                price=Decimal(1),
                currency="USD",
                effective_from=datetime(2026, 1, 1, tzinfo=UTC),
            )
        )
    with database.write() as session:
        session.execute(text("DELETE FROM prices"))


def test_the_scripts_are_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_sqlite_url: MakeUrl
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _upgrade_at(new_sqlite_url()) == list_revisions()


def _entry() -> LedgerEntry:
    return LedgerEntry(
        id="led_1",
        tenant_id="ten_1",
        source="ans_1",
        attempt=1,
        stage="decode",
        price_stage="decode",
        model="m",
        model_revision="r",
        num_tokens=7,
        price_per_million=Decimal("0.4"),
        cost=Decimal("0.0000028"),
        currency="USD",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
