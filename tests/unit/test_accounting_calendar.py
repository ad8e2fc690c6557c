from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounting.calendar import date_of_day, load_zone, offset_periods, parse_interval
from core.errors import InvalidInput

ZONES = (
    "UTC",
    "Asia/Shanghai",
    "Europe/Berlin",
    "America/New_York",
    "America/Havana",  # changes at 01:00, so that midnight comes twice
    "Asia/Beirut",  # changes at midnight, so that it does not come at all
    "Australia/Lord_Howe",  # changes by half an hour
    "Asia/Kathmandu",
    "Africa/Casablanca",  # leaves summer time for a month in the middle of it
    "Pacific/Apia",
)
moments = st.datetimes(datetime(2024, 1, 1), datetime(2028, 1, 1), timezones=st.just(UTC))


def local_date(zone: ZoneInfo, first: datetime, last: datetime, moment: datetime) -> date:
    """The date of `moment` by the rule that the database is given."""
    for period in offset_periods(zone, first, last):
        if period.until is None or moment < period.until:
            seconds = int((moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1))
            return date_of_day((seconds + period.offset_seconds) // 86_400)
    raise AssertionError("the last period has no end")


@given(
    zone=st.sampled_from(ZONES).map(ZoneInfo), bounds=st.tuples(moments, moments).map(sorted), data=st.data()
)
def test_every_moment_falls_on_the_day_its_zones_clocks_show(
    zone: ZoneInfo, bounds: list[datetime], data: st.DataObject
) -> None:
    first, last = bounds
    moment = data.draw(
        st.integers(0, int((last - first).total_seconds())).map(lambda s: first + timedelta(seconds=s))
    )
    assert local_date(zone, first, last, moment) == moment.astimezone(zone).date()


def test_days_are_cut_to_the_second_at_a_clock_change() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    first, last = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 12, 31, tzinfo=UTC)
    spring, autumn, rest = offset_periods(berlin, first, last)
    assert spring.until == datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert autumn.until == datetime(2026, 10, 25, 1, tzinfo=UTC)
    assert [spring.offset_seconds, autumn.offset_seconds, rest.offset_seconds] == [3600, 7200, 3600]


@pytest.mark.parametrize(
    ("zone", "day", "expected"),
    [
        ("Asia/Shanghai", date(2026, 2, 1), datetime(2026, 1, 31, 16, tzinfo=UTC)),
        ("Asia/Beirut", date(2026, 3, 29), datetime(2026, 3, 28, 22, tzinfo=UTC)),
        ("America/Havana", date(2026, 11, 1), datetime(2026, 11, 1, 4, tzinfo=UTC)),
    ],
)
def test_a_date_stands_for_its_first_instant(zone: str, day: date, expected: datetime) -> None:
    assert parse_interval(day, None, zone).start == expected
    before = (expected - timedelta(seconds=1)).astimezone(ZoneInfo(zone))
    assert before.date() < day


def test_a_moment_with_its_own_zone_keeps_it() -> None:
    moment = datetime(2026, 2, 1, 12, tzinfo=ZoneInfo("Asia/Shanghai"))
    assert parse_interval(None, moment, "Europe/Berlin").end == datetime(2026, 2, 1, 4, tzinfo=UTC)


def test_a_moment_without_a_zone_is_a_reading_of_the_reports_clocks() -> None:
    assert parse_interval(datetime(2026, 2, 1, 12), None, "Asia/Shanghai").start == datetime(
        2026, 2, 1, 4, tzinfo=UTC
    )


@pytest.mark.parametrize("end", [date(2026, 1, 1), date(2025, 12, 31)])
def test_a_reversed_or_empty_interval_is_refused(end: date) -> None:
    with pytest.raises(InvalidInput, match="not after its start"):
        parse_interval(date(2026, 1, 1), end, "UTC")


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "../../etc/passwd", "/etc/localtime", "Asia", "北京"])
def test_an_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="There is no time zone"):
        load_zone(name)
