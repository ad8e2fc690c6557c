"""Sums of the ledger by the hour and the day, so that a report over a million lines need not read them all.

The ledger is append-only, so an hour that nobody writes into any more has sums that stay. They are kept
in a few grains: which columns the lines of one row agree in, and whether it is of an hour or of a day. A
report reads the first grain that has all its columns, for all hours that lie in one of its days (or days in
one of its months; a day that a local midnight cuts in two it reads by its hours), and the lines themselves for
the rest: hours that a local midnight cuts in two (only zones whose clocks are off by a part of an hour have
them), the interval's ragged ends, and the days that are not closed (`accounting/ledger_sums.py`).

A day of UTC is closed, all of its hours at once, when it has been over for `GRACE`. A line's time is
taken from the clock inside the transaction that writes it, and such a transaction lasts seconds, so by
then all lines of the day are committed. Should one come late all the same (a clock that was set back),
the day's checksum differs and it is summed anew: `mend_rollups` looks at the newest days each time,
`longleaf doctor` at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from sqlalchemy import ColumnElement, Subquery, delete, func, insert, literal, select, text
from sqlalchemy.orm import Session

from accounting.calendar import SECONDS_PER_DAY
from accounting.ledger_columns import recorded_second, select_lines
from core.ids import TenantId
from storage.database import Database
from storage.models import LedgerEntry, LedgerRollup

GRACE = timedelta(hours=1)
SECONDS_PER_HOUR = 3600

_WORK = ("stage", "price_stage", "model", "model_revision", "price_per_million")
_OWNER = ("collection_id", "key_id", "job_kind", "schedule_id")


@dataclass(frozen=True, slots=True)
class Grain:
    """Lines that agree in `columns` are one row for each stretch of `seconds`, an hour or a day of UTC."""

    columns: tuple[str, ...]
    seconds: int = SECONDS_PER_HOUR


GRAINS: Mapping[str, Grain] = {
    "collection": Grain(("collection_id", "stage", "model"), SECONDS_PER_DAY),
    "key": Grain(("key_id", "job_kind", "schedule_id", "stage", "model"), SECONDS_PER_DAY),
    "work": Grain(_WORK),
    "owner": Grain(_OWNER),
    "owner_and_stage": Grain((*_OWNER, "stage", "model")),
    "document": Grain(("document_id", "stage", "model")),
    "effect": Grain((*_OWNER, "source", "job_id", "document_id")),
}
"""From few rows to many."""

_ALWAYS = ("billed", "is_correction", "currency")
_SUMS = ("num_tokens", "cost", "engine_cost")
_ADVISORY_LOCK = 0x6C6C726F6C6C  # "llroll"

Checksum = tuple[int, int, Decimal, Decimal | None]
"""Lines, tokens, cost and the engine's cost."""


def find_grain(columns: Iterable[str], *, by_day: bool) -> str | None:
    """The grain with fewest rows that has the columns; None: only the lines have them all.

    Args:
        by_day: days are to be told apart, and those of most zones begin inside a day of UTC.
    """
    wanted = set(columns) - {"tenant_id", *_ALWAYS}
    return next(
        (
            name
            for name, grain in GRAINS.items()
            if wanted <= set(grain.columns) and not (by_day and grain.seconds == SECONDS_PER_DAY)
        ),
        None,
    )


def closed_until(session: Session, tenant_id: TenantId) -> int:
    """The second from which on the tenant's lines are in no rollup."""
    # Every line is in each grain, and days without lines need no rollup: the newest row tells.
    newest = session.scalar(
        select(func.max(LedgerRollup.start)).where(
            LedgerRollup.tenant_id == tenant_id, LedgerRollup.grain == "work"
        )
    )
    return 0 if newest is None else _day_of(newest) + SECONDS_PER_DAY


def close_next_day(session: Session, tenant_id: TenantId, *, now: datetime) -> bool:
    """Sum the tenant's oldest day that is over and not summed; False where there is none.

    Any number of processes may do so at once.
    """
    _lock(session)
    since = closed_until(session, tenant_id)
    first = session.scalar(
        select(func.min(LedgerEntry.created_at)).where(
            LedgerEntry.tenant_id == tenant_id, LedgerEntry.created_at >= _moment(since)
        )
    )
    if first is None:
        return False
    day = _day_of(int(first.timestamp()))
    if _moment(day + SECONDS_PER_DAY) + GRACE > now:
        return False
    _sum_day(session, tenant_id, day)
    return True


def roll_up(database: Database, tenant_id: TenantId, *, now: datetime) -> int:
    """Close all days of the tenant that are over, each in a transaction of its own; how many."""
    num_closed = 0
    while True:
        with database.write() as session:
            if not close_next_day(session, tenant_id, now=now):
                return num_closed
        num_closed += 1


def find_differences(
    session: Session, tenant_id: TenantId, *, since: datetime | None = None
) -> list[datetime]:
    """Closed days (from that of `since` on) whose sums, in any grain, are not those of the lines."""
    first, end = 0 if since is None else _day_of(int(since.timestamp())), closed_until(session, tenant_id)
    wanted = _sum_lines(session, tenant_id, first, end)
    grains = [_sum_rollups(session, tenant_id, grain, first, end) for grain in GRAINS]
    days = wanted.keys() | {day for found in grains for day in found}
    return [
        _moment(day) for day in sorted(days) if any(found.get(day) != wanted.get(day) for found in grains)
    ]


def mend_rollups(session: Session, tenant_id: TenantId, *, since: datetime | None = None) -> list[datetime]:
    """Sum anew the days that `find_differences` finds; which they were."""
    _lock(session)
    days = find_differences(session, tenant_id, since=since)
    for day in days:
        _sum_day(session, tenant_id, int(day.timestamp()))
    return days


def _sum_day(session: Session, tenant_id: TenantId, day: int) -> None:
    session.execute(
        delete(LedgerRollup).where(
            LedgerRollup.tenant_id == tenant_id,
            LedgerRollup.grain.in_(GRAINS),  # for the index
            LedgerRollup.start >= day,
            LedgerRollup.start < day + SECONDS_PER_DAY,
        )
    )
    second = recorded_second(session)
    for name, grain in GRAINS.items():
        names = [*grain.columns, *_ALWAYS]
        lines = (
            select_lines(
                [*names, *_SUMS],
                (second - second % grain.seconds).label("start"),
            )
            .where(*_of_days(tenant_id, day, day + SECONDS_PER_DAY))
            .subquery()
        )
        keys = [lines.c.start, *(lines.c[each] for each in names)]
        sums = select(
            literal(tenant_id),
            literal(name),
            *keys,
            func.count(),
            *(func.sum(lines.c[each]) for each in _SUMS),
        ).group_by(*keys)
        session.execute(
            insert(LedgerRollup).from_select(
                ["tenant_id", "grain", "start", *names, "num_lines", *_SUMS], sums
            )
        )


def _sum_lines(session: Session, tenant_id: TenantId, first: int, end: int) -> dict[int, Checksum]:
    second = recorded_second(session)
    lines = (
        select_lines(_SUMS, (second - second % SECONDS_PER_DAY).label("day"))
        .where(*_of_days(tenant_id, first, end))
        .subquery()
    )
    return _checksums(session, lines, func.count())


def _sum_rollups(
    session: Session, tenant_id: TenantId, grain: str, first: int, end: int
) -> dict[int, Checksum]:
    rows = (
        select(
            (LedgerRollup.start - LedgerRollup.start % SECONDS_PER_DAY).label("day"),
            LedgerRollup.num_lines,
            *(getattr(LedgerRollup, name) for name in _SUMS),
        )
        .where(
            LedgerRollup.tenant_id == tenant_id,
            LedgerRollup.grain == grain,
            LedgerRollup.start >= first,
            LedgerRollup.start < end,
        )
        .subquery()
    )
    return _checksums(session, rows, func.sum(rows.c.num_lines))


def _checksums(session: Session, rows: Subquery, num_lines: ColumnElement[int]) -> dict[int, Checksum]:
    sums = [num_lines, *(func.sum(rows.c[name]) for name in _SUMS)]
    found = session.execute(select(rows.c.day, *sums).group_by(rows.c.day))
    return {int(day): (int(lines), int(tokens), cost, engine) for day, lines, tokens, cost, engine in found}


def _of_days(tenant_id: TenantId, first: int, end: int) -> list[ColumnElement[bool]]:
    return [
        LedgerEntry.tenant_id == tenant_id,
        LedgerEntry.created_at >= _moment(first),
        LedgerEntry.created_at < _moment(end),
    ]


def _lock(session: Session) -> None:
    if session.get_bind().dialect.name == "postgresql":
        # Two that sum one day at once would count it twice. SQLite has one writer.
        session.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})


def _day_of(second: int) -> int:
    return second - second % SECONDS_PER_DAY


def _moment(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)
