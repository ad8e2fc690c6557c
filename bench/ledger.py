"""A million ledger entries: how long reports take on both databases, that rollups change no figure, and that budgets hold.

All entries are of one tenant and of one year, which is the worst that can be asked for: the lines are spread
so thinly that an hour's rollups are not many fewer than its lines. Then 64 who ask at once race for a budget
on each database: how far it is overrun, in what one question holds.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from sqlalchemy import CTE, ColumnElement, Insert, String, case, cast, func, insert, literal, select, text
from sqlalchemy.orm import Session

from accounting.invoices import make_invoice
from accounting.money import cost_of
from accounting.reports import cost_report
from accounting.rollups import find_differences, roll_up
from accounting.top_costs import top_costs
from bench.budget_race import measure_overshoot
from bench.own_postgresql import running_postgresql
from bench.report import BenchOptions, BenchResult, BenchTable
from bootstrap.job_kinds import finish_job
from core.ids import TenantId
from storage.answers import ANSWER_KIND
from storage.database import Database
from storage.migrate import upgrade
from storage.models import Job, LedgerEntry, LedgerRollup, Tenant
from storage.types import MONEY_SCALE, Money

TENANT = TenantId("ten_bench")
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
AFTERWARDS = FIRST + timedelta(days=400)
_STAGES = ("embed", "extract", "rerank", "prefill_uncached", "prefill_cached", "decode")
_SECONDS = 365 * 86_400
_PRICE = Decimal("0.8")
_NUM_REPEATS = 3

Report = Callable[[Session, bool], Any]
"""Reports with rollups, or from the lines alone."""


def run(options: BenchOptions) -> BenchResult:
    """Seconds of the slowest report on each database, the median of three."""
    num_entries = 100_000 if options.quick else 1_000_000
    results: dict[str, _Result] = {}
    with tempfile.TemporaryDirectory(prefix="ledger") as folder:
        results["sqlite"] = _measure(f"sqlite:///{Path(folder) / 'ledger.db'}", num_entries)
        overshoots = [_race(f"sqlite:///{Path(folder) / 'race.db'}")]
    with running_postgresql() as url:
        results["postgresql"] = _measure(url, num_entries)
    with running_postgresql() as url:
        overshoots.append(_race(url))
    return BenchResult(
        name="ledger",
        config={"num_entries": num_entries, "num_reports": len(REPORTS)},
        figures={
            "entries": num_entries,
            "report_seconds_sqlite": results["sqlite"].slowest,
            "report_seconds_postgresql": results["postgresql"].slowest,
            "rollup_equals_raw": all(result.is_equal for result in results.values()),
            "budget_overshoot_holds": max(overshoots),
        },
        details={name: result.to_json() for name, result in results.items()},
        tables=[_table(results)],
    )


@dataclass(frozen=True, slots=True)
class _Result:
    num_rollups: int
    insert_seconds: float
    rollup_seconds: float
    report_seconds: Mapping[str, float]
    raw_seconds: Mapping[str, float]
    is_equal: bool

    @property
    def slowest(self) -> float:
        return max(self.report_seconds.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "num_rollups": self.num_rollups,
            "insert_seconds": self.insert_seconds,
            "rollup_seconds": self.rollup_seconds,
            "report_seconds": dict(self.report_seconds),
            "raw_seconds": dict(self.raw_seconds),
        }


def _costs(
    group_by: str, time_zone: str = "UTC", start: date | None = None, end: date | None = None
) -> Report:
    return lambda session, use_rollups: cost_report(
        session,
        TENANT,
        group_by=group_by.split(","),
        time_zone=time_zone,
        use_rollups=use_rollups,
        start=start,
        end=end,
    )


REPORTS: Mapping[str, Report] = {
    "a month by day and stage": _costs("day,stage", start=date(2026, 6, 1), end=date(2026, 7, 1)),
    "a year by day and stage": _costs("day,stage"),
    "by collection": _costs("collection"),
    "by key and kind of job": _costs("key,job_kind"),
    "by collection and stage": _costs("collection,stage"),
    "by key and stage": _costs("key,stage"),
    "by document and stage": _costs("document,stage"),
    "by week in Asia/Shanghai": _costs("week", "Asia/Shanghai"),
    "by week and collection in Asia/Shanghai": _costs("week,collection", "Asia/Shanghai"),
    "by day and model in Asia/Kolkata": _costs("day,model", "Asia/Kolkata"),
    "top documents and questions": lambda session, use_rollups: top_costs(
        session, TENANT, use_rollups=use_rollups
    ),
    "invoice of a month": lambda session, use_rollups: make_invoice(
        session, TENANT, "2026-06", time_zone="Asia/Shanghai", now=AFTERWARDS, use_rollups=use_rollups
    ),
}


def _measure(url: str, num_entries: int) -> _Result:
    database = Database(url)
    try:
        upgrade(database)
        insert_seconds = _timed(lambda: _fill(database, num_entries))[0]
        rollup_seconds = _timed(lambda: roll_up(database, TENANT, now=AFTERWARDS))[0]
        _analyze(database)
        report_seconds: dict[str, float] = {}
        raw_seconds: dict[str, float] = {}
        is_equal = True
        with database.read() as session:
            num_rollups = session.scalar(select(func.count()).select_from(LedgerRollup)) or 0
            for name, report in REPORTS.items():
                timings, found = zip(
                    *(_timed(report, session, True) for _ in range(_NUM_REPEATS)), strict=True
                )
                report_seconds[name] = sorted(timings)[_NUM_REPEATS // 2]
                raw_seconds[name], raw = _timed(report, session, False)
                is_equal &= all(each == raw for each in found)
            is_equal &= not find_differences(session, TENANT)
        return _Result(num_rollups, insert_seconds, rollup_seconds, report_seconds, raw_seconds, is_equal)
    finally:
        database.dispose()


def _race(url: str) -> float:
    database = Database(url, on_job_ended=finish_job)
    try:
        upgrade(database)
        return measure_overshoot(database)
    finally:
        database.dispose()


def _timed(work: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    started = time.perf_counter()
    found = work(*arguments)
    return time.perf_counter() - started, found


def _fill(database: Database, num_entries: int) -> None:
    """Questions of a line a stage, each a job of its own; made by the database, which takes seconds."""
    num_questions = -(-num_entries // len(_STAGES))
    with database.write() as session:
        session.add(Tenant(id=TENANT, name="bench"))
        session.flush()
        session.execute(_jobs(num_questions))
        session.execute(_entries(num_entries, is_sqlite=database.is_sqlite))


def _numbers(num: int) -> CTE:
    """0, 1, … as the column `n`."""
    first = select(literal(0).label("n")).cte("numbers", recursive=True)
    return first.union_all(select(first.c.n + 1).where(first.c.n < num - 1))


def _jobs(num: int) -> Insert:
    n = _numbers(num).c.n
    values: dict[str, Any] = {
        "id": _name("job", n),
        "tenant_id": literal(TENANT),
        "kind": case((n % 5 > 0, ANSWER_KIND), else_="summary"),
        "queue": literal("interactive"),
        "status": literal("succeeded"),
        "max_attempts": literal(3),
    }
    return _insert(Job, values)


def _entries(num: int, *, is_sqlite: bool) -> Insert:
    n = _numbers(num).c.n
    question, position = n // len(_STAGES), n % len(_STAGES)
    num_tokens = 1 + n % 9973 * 7919 % 4001
    stage = case(*((position == i, name) for i, name in enumerate(_STAGES)))
    second = int(FIRST.timestamp()) + n // len(_STAGES) * (_SECONDS // -(-num // len(_STAGES)))
    values: dict[str, Any] = {
        "id": _name("led", n),
        "tenant_id": literal(TENANT),
        "key_id": _name("key", question % 13),
        "job_id": _name("job", question),
        "collection_id": _name("col", question * 11 % 40),
        "document_id": case((position == 0, _name("doc", question % 2000))),
        "source": _name("ans", question),
        "attempt": literal(1),
        "stage": stage,
        "price_stage": stage,
        "model": case((position < 3, "small"), else_="large"),
        "model_revision": literal("r1"),
        "num_tokens": num_tokens,
        "price_per_million": literal(_PRICE, Money),
        "cost": num_tokens * int(cost_of(1, _PRICE) * 10**MONEY_SCALE),
        "currency": literal("USD"),
        "billed": n % 50 > 0,
        "created_at": func.strftime("%Y-%m-%d %H:%M:%S.000000", second, "unixepoch")
        if is_sqlite
        else func.to_timestamp(second),
    }
    return _insert(LedgerEntry, values)


def _insert(model: type[Job] | type[LedgerEntry], values: Mapping[str, Any]) -> Insert:
    return insert(model).from_select(list(values), select(*values.values()))


def _name(prefix: str, number: ColumnElement[int]) -> ColumnElement[str]:
    return literal(f"{prefix}_") + cast(number, String)


def _analyze(database: Database) -> None:
    """What autovacuum does on a server that lives longer."""
    if not database.is_sqlite:
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE"))


def _table(results: Mapping[str, _Result]) -> BenchTable:
    columns = [part for name in results for part in (name, f"{name}, lines alone")]
    rows = [
        (
            report,
            *(
                f"{seconds[report]:.2f} s"
                for result in results.values()
                for seconds in (result.report_seconds, result.raw_seconds)
            ),
        )
        for report in REPORTS
    ]
    return BenchTable("Seconds of each report", ("report", *columns), rows)
