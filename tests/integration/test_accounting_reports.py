from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import count, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accounting.ledger import Ledger, LedgerLine
from accounting.price_book import load_price_book
from accounting.price_sync import sync_price_book
from accounting.report_formats import cost_report_as_csv, cost_report_as_json, usage_as_json
from accounting.reports import CostReport, Dimension, cost_report, usage_summary
from accounting.stages import Stage
from core.errors import Conflict, InvalidInput
from core.ids import TenantId
from storage.database import Database
from storage.models import LedgerEntry, Tenant

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
OURS, THEIRS = TenantId("ten_ours"), TenantId("ten_theirs")


def prepare(database: Database) -> None:
    with database.write() as session:
        session.add_all([Tenant(id=OURS, name="我们"), Tenant(id=THEIRS, name="theirs")])
        sync_price_book(session, load_price_book(), now=NOW)


@dataclass(frozen=True)
class Use:
    """A line as tests like to write it."""

    at: datetime
    stage: Stage = Stage.DECODE
    num_tokens: int = 100
    model: str = "m"
    billed: bool = True
    tenant_id: TenantId = OURS
    collection_id: str | None = "col_1"
    document_id: str | None = None


_numbers = count(1)


def record(database: Database, *uses: Use) -> None:
    with database.write() as session:
        for use in uses:
            line = LedgerLine(
                source=f"ans_{next(_numbers)}",
                attempt=1,
                stage=use.stage,
                model=use.model,
                model_revision="r",
                num_tokens=use.num_tokens,
                billed=use.billed,
                key_id="key_1",
                job_id="job_1",
                collection_id=use.collection_id,
                document_id=use.document_id,
            )
            Ledger().record(session, use.tenant_id, [line], at=use.at)


def report(
    database: Database,
    *group_by: str,
    tenant_id: TenantId | None = OURS,
    start: date | None = None,
    end: date | None = None,
    time_zone: str = "UTC",
) -> CostReport:
    with database.read() as session:
        return cost_report(session, tenant_id, group_by=group_by, start=start, end=end, time_zone=time_zone)


def tokens(found: CostReport) -> dict[Sequence[str | None], int]:
    return {tuple(row.dimensions.values()): row.amounts.num_tokens for row in found.rows}


def noon(day: int, month: int = 6) -> datetime:
    return datetime(2026, month, day, 12, tzinfo=UTC)


@pytest.fixture
def priced(database: Database) -> Database:
    prepare(database)
    return database


def test_costs_are_grouped_by_all_that_was_asked_for(priced: Database) -> None:
    record(
        priced,
        Use(noon(1), num_tokens=1),
        Use(noon(1), num_tokens=2, model="n"),
        Use(noon(2), num_tokens=4, stage=Stage.EMBED),
        Use(noon(2), num_tokens=8, document_id="doc_1"),
        Use(noon(1, month=7), num_tokens=16, collection_id="col_2"),
    )
    assert tokens(report(priced)) == {(): 31}
    assert tokens(report(priced, "day")) == {("2026-06-01",): 3, ("2026-06-02",): 12, ("2026-07-01",): 16}
    assert tokens(report(priced, "month")) == {("2026-06",): 15, ("2026-07",): 16}
    assert tokens(report(priced, "stage")) == {("decode",): 27, ("embed",): 4}
    assert tokens(report(priced, "model")) == {("m",): 29, ("n",): 2}
    assert tokens(report(priced, "collection")) == {("col_1",): 15, ("col_2",): 16}
    assert tokens(report(priced, "document")) == {("doc_1",): 8, (None,): 23}
    assert tokens(report(priced, "key", "job")) == {("key_1", "job_1"): 31}
    assert tokens(report(priced, "model", "month")) == {
        ("m", "2026-06"): 13,
        ("m", "2026-07"): 16,
        ("n", "2026-06"): 2,
    }


def test_rows_come_sorted_with_lines_that_have_none_last(priced: Database) -> None:
    for name in ("docB", "文件", None, "doca", "doc"):
        record(priced, Use(noon(1), document_id=name))
    rows = report(priced, "document").rows
    assert [row.dimensions[Dimension.DOCUMENT] for row in rows] == ["doc", "docB", "doca", "文件", None]


def test_burned_tokens_are_shown_beside_the_bill_not_on_it(priced: Database) -> None:
    record(priced, Use(noon(1), num_tokens=1000), Use(noon(1), num_tokens=500, billed=False))
    (row,) = report(priced, "day").rows
    assert (row.amounts.num_tokens, row.amounts.cost) == (1000, Decimal("0.0008"))
    assert (row.amounts.burned_tokens, row.amounts.burned_cost) == (500, Decimal("0.0004"))


def test_a_day_without_a_bill_still_shows_what_was_burned(priced: Database) -> None:
    record(priced, Use(noon(1), billed=False))
    (row,) = report(priced, "day").rows
    assert (row.amounts.num_tokens, row.amounts.burned_tokens) == (0, 100)


def test_a_tenant_sees_its_own_lines_and_an_administrator_all(priced: Database) -> None:
    record(priced, Use(noon(1), num_tokens=1), Use(noon(1), num_tokens=2, tenant_id=THEIRS))
    assert tokens(report(priced, "tenant")) == {("ten_ours",): 1}
    assert tokens(report(priced, "tenant", tenant_id=None)) == {("ten_ours",): 1, ("ten_theirs",): 2}


def test_the_start_counts_and_the_end_does_not(priced: Database) -> None:
    midnight = datetime(2026, 6, 1, tzinfo=UTC)
    record(
        priced,
        Use(midnight - timedelta(microseconds=1), num_tokens=1),
        Use(midnight, num_tokens=2),
        Use(midnight + timedelta(days=1, microseconds=-1), num_tokens=4),
        Use(midnight + timedelta(days=1), num_tokens=8),
    )
    assert tokens(report(priced, start=date(2026, 6, 1), end=date(2026, 6, 2))) == {(): 6}
    assert tokens(report(priced, "day")) == {
        ("2026-05-31",): 1,
        ("2026-06-01",): 6,
        ("2026-06-02",): 8,
    }


def test_days_are_those_of_the_zone(priced: Database) -> None:
    record(priced, Use(datetime(2026, 5, 31, 16, 0, tzinfo=UTC)))
    assert list(tokens(report(priced, "day", time_zone="Asia/Shanghai"))) == [("2026-06-01",)]
    assert list(tokens(report(priced, "month", time_zone="America/New_York"))) == [("2026-05",)]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/Havana", "Asia/Beirut", "Australia/Lord_Howe"])
def test_hours_around_clock_changes_fall_on_their_local_day(priced: Database, zone: str) -> None:
    moments = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=15 * i) for i in range(4 * 24 * 365)]
    changes = [
        moment
        for before, moment in pairwise(moments)
        if moment.astimezone(ZoneInfo(zone)).utcoffset() != before.astimezone(ZoneInfo(zone)).utcoffset()
    ]
    assert len(changes) == 2
    near = [change + timedelta(minutes=15 * i) for change in changes for i in range(-16, 16)]
    record(priced, *(Use(moment, num_tokens=1) for moment in near))
    expected: dict[tuple[str], int] = {}
    for moment in near:
        day = (moment.astimezone(ZoneInfo(zone)).date().isoformat(),)
        expected[day] = expected.get(day, 0) + 1
    assert tokens(report(priced, "day", time_zone=zone)) == expected


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"group_by": ["year"]}, "cannot be grouped by 'year'.*day, week, month, stage"),
        ({"group_by": ["day; DROP TABLE"]}, "cannot be grouped by"),
        ({"time_zone": "Mars/Olympus"}, "no time zone 'Mars/Olympus'"),
        ({"start": date(2026, 2, 1), "end": date(2026, 1, 1)}, "not after its start"),
    ],
)
def test_what_makes_no_sense_is_refused(
    priced: Database, arguments: dict[str, object], complaint: str
) -> None:
    with priced.read() as session, pytest.raises(InvalidInput, match=complaint):
        cost_report(session, OURS, **arguments)  # type: ignore[arg-type]


def test_a_report_of_nothing_is_empty_and_in_the_books_currency(priced: Database) -> None:
    found = report(priced, "day", "stage", time_zone="Asia/Shanghai")
    assert found.rows == ()
    assert found.total.cost == 0
    assert (found.currency, str(found.invoice_total)) == ("USD", "0.00")


def test_two_currencies_are_never_summed(priced: Database) -> None:
    record(priced, Use(noon(1)))
    with priced.write() as session:
        session.add(
            LedgerEntry(
                id="led_1",
                tenant_id=OURS,
                source="s",
                attempt=1,
                stage="decode",
                price_stage="decode",
                model="m",
                model_revision="r",
                num_tokens=1,
                price_per_million=Decimal(1),
                cost=Decimal(1),
                currency="CNY",
            )
        )
    with pytest.raises(Conflict, match="CNY and USD"):
        report(priced)


def test_usage_tells_stages_apart_and_the_cached_share_of_prompts(priced: Database) -> None:
    record(
        priced,
        Use(noon(1), stage=Stage.PREFILL_UNCACHED, num_tokens=400),
        Use(noon(1), stage=Stage.PREFILL_CACHED, num_tokens=600),
        Use(noon(1), stage=Stage.DECODE, num_tokens=50),
        Use(noon(1), stage=Stage.DECODE, num_tokens=5, billed=False),
        Use(noon(1), stage=Stage.EMBED, num_tokens=9),
    )
    with priced.read() as session:
        usage = usage_summary(session, OURS)
    assert (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) == (1000, 600, 50)
    assert usage.cached_share == 0.6
    assert usage.total.burned_tokens == 5
    data = usage_as_json(usage)
    assert list(data["stages"]) == ["embed", "prefill_uncached", "prefill_cached", "decode"]
    assert data["stages"]["prefill_cached"]["cost"] == "0.00003"


def test_usage_of_nothing_has_no_cached_share(priced: Database) -> None:
    with priced.read() as session:
        assert usage_summary(session, OURS).cached_share is None


uses = st.builds(
    Use,
    at=st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC)),
    stage=st.sampled_from(Stage),
    num_tokens=st.integers(1, 10**12),
    model=st.sampled_from(["m", "multilingual-e5-small", "通义千问"]),
    billed=st.booleans(),
    collection_id=st.sampled_from([None, "col_1", "col_2"]),
)
groupings = st.lists(st.sampled_from(list(Dimension)), max_size=4)
few = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def tenants(database: Database) -> Iterator[TenantId]:
    """A fresh tenant for each example: a ledger cannot be emptied."""
    for number in count(1):
        with database.write() as session:
            session.add(Tenant(id=f"ten_{number}", name=str(number)))
        yield TenantId(f"ten_{number}")


def test_the_sum_over_any_groups_is_the_sum_of_the_lines_to_the_last_digit(priced: Database) -> None:
    fresh = tenants(priced)

    @few
    @given(st.lists(uses, max_size=30), groupings, st.sampled_from(["UTC", "Asia/Shanghai", "Europe/Berlin"]))
    def check(lines: list[Use], group_by: list[Dimension], zone: str) -> None:
        tenant_id = next(fresh)
        with priced.write() as session:
            entries = [
                entry
                for i, use in enumerate(lines)
                for entry in Ledger().record(
                    session, tenant_id, [as_line(use, f"{tenant_id}_{i}")], at=use.at
                )
            ]
        found = report(priced, *group_by, tenant_id=tenant_id, time_zone=zone)
        cost = sum((row.amounts.cost for row in found.rows), start=Decimal(0))
        burned = sum((row.amounts.burned_cost for row in found.rows), start=Decimal(0))
        assert cost == found.total.cost == sum(entry.cost for entry in entries if entry.billed)
        assert burned == found.total.burned_cost == sum(e.cost for e in entries if not e.billed)
        assert found.total.num_tokens == sum(use.num_tokens for use in lines if use.billed)

    check()


def as_line(use: Use, source: str) -> LedgerLine:
    return LedgerLine(
        source=source,
        attempt=1,
        stage=use.stage,
        model=use.model,
        model_revision="r",
        num_tokens=use.num_tokens,
        billed=use.billed,
        collection_id=use.collection_id,
    )


def test_both_databases_give_the_same_report(both_databases: tuple[Database, Database]) -> None:
    for database in both_databases:
        prepare(database)
    fresh = [tenants(database) for database in both_databases]

    @few
    @given(
        st.lists(uses, max_size=30),
        groupings,
        st.sampled_from(["UTC", "Asia/Kathmandu", "America/Havana", "Asia/Beirut"]),
    )
    def check(lines: list[Use], group_by: list[Dimension], zone: str) -> None:
        reports = []
        for database, names in zip(both_databases, fresh, strict=True):
            tenant_id = next(names)
            with database.write() as session:
                for i, use in enumerate(lines):
                    Ledger().record(session, tenant_id, [as_line(use, f"{tenant_id}_{i}")], at=use.at)
            found = report(database, *group_by, tenant_id=tenant_id, time_zone=zone)
            reports.append((cost_report_as_json(found), cost_report_as_csv(found)))
        assert reports[0] == reports[1]

    check()
