from __future__ import annotations

from core.clock import utc_now
from storage.database import Database
from storage.insertion import insert_if_absent
from storage.models import Tenant


def row(name: str) -> dict[str, object]:
    return {"id": f"ten_{name}", "name": name, "created_at": utc_now()}


def test_only_rows_that_were_absent_are_inserted_and_counted(database: Database) -> None:
    with database.write() as session:
        assert insert_if_absent(session, Tenant, row("a")) == 1
        assert insert_if_absent(session, Tenant, row("a")) == 0
        assert insert_if_absent(session, Tenant, row("a"), row("b"), row("甲")) == 2
