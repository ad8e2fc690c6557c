"""INSERT … ON CONFLICT DO NOTHING, spelled for both databases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from storage.models import Base


def insert_if_absent(session: Session, model: type[Base], *rows: Mapping[str, Any]) -> int:
    """Insert the rows whose unique keys do not exist, in one statement; how many were inserted."""
    dialect = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
    # Against the table and with the rows as parameters, so that the statement is compiled once.
    statement = dialect.insert(model.__table__).on_conflict_do_nothing()
    # Without being asked to keep it, SQLAlchemy loses psycopg's count with the cursor and says -1.
    kept = {"preserve_rowcount": True}
    return session.connection().execute(statement, list(rows), execution_options=kept).rowcount
