"""Triggers that make a table append-only, in both dialects.

SQLite drops a table's triggers when a batch operation rebuilds it, so a migration that does this
to a protected table calls `unprotect` before and `protect` after.
"""

from __future__ import annotations

from alembic import op

_FUNCTION = "longleaf_refuse_change"


def protect(table: str) -> None:
    """Refuse UPDATE and DELETE (and PostgreSQL's TRUNCATE) of `table` from here on."""
    message = f"{table} is append-only: write a correcting row instead"
    if op.get_bind().dialect.name == "sqlite":
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{message}'); END"
            )
        return
    op.execute(
        f"CREATE OR REPLACE FUNCTION {_FUNCTION}() RETURNS trigger LANGUAGE plpgsql AS $$ "
        "BEGIN RAISE EXCEPTION '% is append-only: write a correcting row instead', TG_TABLE_NAME "
        "USING ERRCODE = 'integrity_constraint_violation'; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {_FUNCTION}()"
    )


def unprotect(table: str) -> None:
    """Undo `protect`."""
    if op.get_bind().dialect.name == "sqlite":
        op.execute(f"DROP TRIGGER {table}_no_update")
        op.execute(f"DROP TRIGGER {table}_no_delete")
        return
    op.execute(f"DROP TRIGGER {table}_no_change ON {table}")
    op.execute(f"DROP FUNCTION {_FUNCTION}()")
