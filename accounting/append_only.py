"""The ledger refuses change in Python too, with a reason, before the database's triggers have to."""

from __future__ import annotations

from typing import NoReturn

from sqlalchemy import Table, event
from sqlalchemy.orm import Mapper, ORMExecuteState, Session, object_session
from sqlalchemy.sql.dml import Delete, Update

from core.errors import Conflict
from storage.models import LedgerEntry


@event.listens_for(LedgerEntry, "before_delete")
def _refuse_delete(_mapper: Mapper[LedgerEntry], _connection: object, entry: LedgerEntry) -> None:
    _refuse(f"Ledger entry {entry.id}")


@event.listens_for(LedgerEntry, "before_update")
def _refuse_update(_mapper: Mapper[LedgerEntry], _connection: object, entry: LedgerEntry) -> None:
    session = object_session(entry)
    # The hook also comes for entries that were touched and hold what they held before.
    if session is None or session.is_modified(entry):
        _refuse(f"Ledger entry {entry.id}")


@event.listens_for(Session, "do_orm_execute")
def _refuse_bulk(state: ORMExecuteState) -> None:
    statement = state.statement
    if isinstance(statement, Update | Delete) and _table_name(statement) == LedgerEntry.__tablename__:
        _refuse("The ledger")


def _table_name(statement: Update | Delete) -> str | None:
    # By name: the ORM puts an annotated copy of the table into its statements.
    return statement.table.name if isinstance(statement.table, Table) else None


def _refuse(what: str) -> NoReturn:
    raise Conflict(
        f"{what} can be neither changed nor deleted.", remedy="Record a correction under its own source."
    )
