"""Alembic runs this file; `storage.migrate` has put the connection, and its transaction, in `config`."""

from __future__ import annotations

from typing import Any, Literal

from alembic import context
from alembic.autogenerate.api import AutogenContext
from sqlalchemy.types import TypeDecorator

from storage.models import Base


def render_plainly(kind: str, item: Any, autogen: AutogenContext) -> str | Literal[False]:
    """Drafts name a column's database type: a migration must not change when `storage.types` does."""
    if kind == "type" and isinstance(item, TypeDecorator):
        return f"sa.{item.impl_instance!r}"
    return False


def run() -> None:
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=Base.metadata,
        render_as_batch=True,
        render_item=render_plainly,
        compare_type=True,
    )
    with context.begin_transaction():
        context.run_migrations()


run()
