"""Rollups of the ledger: no figure of any report may depend on whether they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import count

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from accounting.corrections import correct_entry
from accounting.ledger import Ledger, LedgerLine
from accounting.price_book import load_price_book
from accounting.price_sync import sync_price_book
from accounting.reports import CostReport, Dimension, cost_report
from accounting.rollups import GRACE, find_differences, mend_rollups, roll_up
from accounting.stages import Stage
from core.ids import TenantId
from storage.database import Database
from storage.models import Job, LedgerRollup, Tenant

START = datetime(2026, 3, 1, tzinfo=UTC)
LATER = datetime(2027, 6, 1, tzinfo=UTC)
ZONES = (
    "UTC",
    "Asia/Shanghai",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "America/Havana",  # clocks change at midnight
    "Australia/Lord_Howe",  # by half an hour
)


@pytest.fixture
def tenants(database: Database) -> Iterator[TenantId]:
    """A fresh one each time it is asked: a ledger cannot be emptied."""
    with database.write() as session:
        sync_price_book(session, load_price_book(), now=START)

    def make() -> Iterator[TenantId]:
        for number in count(1):
            with database.write() as session:
                session.add(Tenant(id=f"ten_{number}", name=str(number)))
                session.flush()
                session.add(
                    Job(
                        id=f"job_{number}",
                        tenant_id=f"ten_{number}",
                        kind="answer",
                        queue="interactive",
                        max_attempts=1,
                    )
                )
            yield TenantId(f"ten_{number}")

    return make()


@pytest.fixture
def tenant(tenants: Iterator[TenantId]) -> TenantId:
    return next(tenants)


_sources = count(1)


def line(tenant_id: TenantId, *, num_tokens: int = 100, **fields: object) -> LedgerLine:
    values = {
        "source": f"src_{next(_sources)}",
        "attempt": 1,
        "stage": Stage.DECODE,
        "model": "m",
        "model_revision": "r",
        "job_id": tenant_id.replace("ten", "job"),
    } | fields
    return LedgerLine(num_tokens=num_tokens, **values)  # type: ignore[arg-type]


def record(database: Database, tenant_id: TenantId, *moments: datetime) -> None:
    with database.write() as session:
        for moment in moments:
            Ledger().record(session, tenant_id, [line(tenant_id)], at=moment)


def close_all(database: Database, tenant_id: TenantId, now: datetime = LATER) -> int:
    return roll_up(database, tenant_id, now=now)


def num_rolled(database: Database, tenant_id: TenantId) -> int:
    """Lines that rollups stand for."""
    with database.read() as session:
        return int(
            session.scalar(
                select(func.coalesce(func.sum(LedgerRollup.num_lines), 0)).where(
                    LedgerRollup.tenant_id == tenant_id, LedgerRollup.grain == "work"
                )
            )
            or 0
        )


def reports(
    database: Database,
    tenant_id: TenantId,
    group_by: Sequence[str],
    start: date | None = None,
    end: date | None = None,
    zone: str = "UTC",
) -> tuple[CostReport, CostReport]:
    """With rollups, and from the lines alone."""
    with database.read() as session:
        rolled, raw = (
            cost_report(
                session, tenant_id, group_by=group_by, start=start, end=end, time_zone=zone, use_rollups=use
            )
            for use in (True, False)
        )
    return rolled, raw


moments = st.one_of(
    st.datetimes(datetime(2026, 3, 1), datetime(2026, 3, 15), timezones=st.just(UTC)),
    # Around the instants at which a date begins or a clock changes somewhere.
    st.builds(
        lambda day, hour, quarter, offset: (
            datetime(2026, 3, day, hour, 15 * quarter, tzinfo=UTC) + timedelta(microseconds=offset)
        ),
        st.integers(1, 14),
        st.sampled_from([0, 4, 5, 13, 15, 16, 18]),
        st.integers(0, 3),
        st.integers(-1, 1),
    ),
)
lines = st.fixed_dictionaries(
    {
        "stage": st.sampled_from([Stage.DECODE, Stage.EMBED]),
        "num_tokens": st.integers(1, 10**12),
        "model": st.sampled_from(["m", "通义千问"]),
        "billed": st.booleans(),
        "engine_seconds": st.sampled_from([0.0, 0.25, 3600.0]),
        "collection_id": st.sampled_from([None, "col_1"]),
        "document_id": st.sampled_from([None, "doc_1"]),
        "key_id": st.sampled_from([None, "key_1"]),
    }
)
bounds = st.one_of(st.none(), moments, st.dates(date(2026, 2, 27), date(2026, 3, 17)))


def test_rolled_sums_are_the_sums_of_the_lines_to_the_last_digit(
    database: Database, tenants: Iterator[TenantId]
) -> None:
    @settings(
        max_examples=8,  # large ones, on each database
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(
        st.lists(st.tuples(moments, lines, st.one_of(st.none(), moments)), min_size=10, max_size=25),
        moments,
        st.lists(
            st.tuples(
                st.lists(st.sampled_from(list(Dimension)), max_size=3), bounds, bounds, st.sampled_from(ZONES)
            ),
            min_size=4,
            max_size=4,
        ),
    )
    def check(
        written: list[tuple[datetime, dict[str, object], datetime | None]],
        closed: datetime,
        asked: list[tuple[list[Dimension], date | None, date | None, str]],
    ) -> None:
        tenant_id = next(tenants)
        with database.write() as session:
            for moment, fields, corrected in written:
                (entry,) = Ledger().record(session, tenant_id, [line(tenant_id, **fields)], at=moment)  # type: ignore[arg-type]
                if corrected is not None:
                    correct_entry(
                        session, entry.id, reason="counted twice", num_tokens=-entry.num_tokens, now=corrected
                    )
        close_all(database, tenant_id, closed + timedelta(days=2))
        for group_by, start, end, zone in asked:
            if start is not None and end is not None:
                start, end = date(2026, 3, 2), date(2026, 3, 9)
            rolled, raw = reports(database, tenant_id, group_by, start, end, zone)
            assert rolled == raw
        with database.read() as session:
            assert find_differences(session, tenant_id) == []

    check()


def test_days_of_every_zone_come_from_whole_hours_and_lines(database: Database, tenant: TenantId) -> None:
    record(database, tenant, *(START + timedelta(minutes=53 * i) for i in range(150)))
    close_all(database, tenant)
    for zone in ZONES:
        rolled, raw = reports(database, tenant, ["day", "stage"], zone=zone)
        assert rolled == raw
        assert len(rolled.rows) in (6, 7)


@pytest.mark.parametrize(
    "group_by", [["week", "collection"], ["month", "key"], ["week", "document", "stage"]]
)
def test_weeks_and_months_of_every_zone_come_from_days_hours_and_lines(
    database: Database, tenant: TenantId, group_by: list[str]
) -> None:
    begin = START - timedelta(days=5)
    record(database, tenant, *(begin + timedelta(minutes=97 * i) for i in range(150)))
    close_all(database, tenant)
    for zone in ZONES:
        rolled, raw = reports(database, tenant, group_by, zone=zone)
        assert rolled == raw
        assert len(rolled.rows) >= 2


def test_a_day_is_closed_when_it_has_been_over_for_the_grace(database: Database, tenant: TenantId) -> None:
    record(database, tenant, START, START + timedelta(hours=23), START + timedelta(days=1))
    over = START + timedelta(days=1)
    assert close_all(database, tenant, over + GRACE - timedelta(seconds=1)) == 0
    assert close_all(database, tenant, over + GRACE) == 1
    assert num_rolled(database, tenant) == 2


def test_days_without_lines_are_passed_over(database: Database, tenant: TenantId) -> None:
    record(database, tenant, START, START + timedelta(days=300))
    assert close_all(database, tenant) == 2
    assert close_all(database, tenant) == 0


def test_the_open_tail_counts_at_once(database: Database, tenant: TenantId) -> None:
    record(database, tenant, START)
    close_all(database, tenant)
    record(database, tenant, START + timedelta(days=40))
    rolled, raw = reports(database, tenant, ["month"])
    assert rolled == raw
    assert rolled.total.num_tokens == 200


def test_a_line_that_comes_late_is_noticed_and_mended(database: Database, tenant: TenantId) -> None:
    record(database, tenant, START, START + timedelta(days=1))
    close_all(database, tenant)
    record(database, tenant, START + timedelta(hours=3))
    with database.write() as session:
        assert find_differences(session, tenant) == [START]
        assert mend_rollups(session, tenant, since=START + timedelta(days=1)) == []
        assert mend_rollups(session, tenant) == [START]
        assert find_differences(session, tenant) == []
    rolled, raw = reports(database, tenant, ["day"])
    assert rolled == raw
    assert rolled.total.cost == Decimal("0.00024")


def test_tenants_are_rolled_up_apart(database: Database, tenants: Iterator[TenantId]) -> None:
    ours, theirs = next(tenants), next(tenants)
    record(database, ours, START)
    record(database, theirs, START, START)
    close_all(database, ours)
    assert (num_rolled(database, ours), num_rolled(database, theirs)) == (1, 0)
    assert reports(database, ours, [])[0].total.num_tokens == 100
    with database.read() as session:
        assert cost_report(session, None, group_by=["tenant"]).total.num_tokens == 300


def test_what_kind_of_job_it_was_is_read_from_the_job(database: Database, tenant: TenantId) -> None:
    with database.write() as session:
        jobless = line(tenant, job_id=None)
        Ledger().record(session, tenant, [line(tenant), jobless], at=START)
    close_all(database, tenant)
    rolled, raw = reports(database, tenant, ["job_kind"])
    assert rolled == raw
    assert [row.dimensions[Dimension.JOB_KIND] for row in rolled.rows] == ["answer", None]
