"""INSERT … ON CONFLICT DO NOTHING, spelled for both databases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from storage.models import Base


def insert_if_absent(session: Session, model: type[Base], values: Mapping[str, Any]) -> bool:
    """Insert one row unless a unique key of it exists; True where it was inserted."""
    dialect = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
    result = session.execute(dialect.insert(model).values(**values).on_conflict_do_nothing())
    return bool(result.rowcount)  # type: ignore[attr-defined]
