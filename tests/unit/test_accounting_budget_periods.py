from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from accounting.budget_periods import Bounds, Period, bounds_of

BERLIN = ZoneInfo("Europe/Berlin")
SHANGHAI = ZoneInfo("Asia/Shanghai")
BEIRUT = ZoneInfo("Asia/Beirut")


def at(text: str, zone: ZoneInfo) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-28", 24), ("2026-03-29", 23), ("2026-10-25", 25), ("2026-10-26", 24)]
)
def test_a_day_is_as_long_as_the_clocks_make_it(day: str, hours: int) -> None:
    bounds = bounds_of(Period.DAY, BERLIN, at(f"{day}T12:00", BERLIN))
    assert bounds.start == at(f"{day}T00:00", BERLIN)
    assert bounds.end == bounds.start + timedelta(hours=hours)


def test_a_day_whose_midnight_the_clocks_skip_begins_with_their_change() -> None:
    bounds = bounds_of(Period.DAY, BEIRUT, at("2026-03-29T12:00", BEIRUT))
    assert bounds.start == datetime(2026, 3, 28, 22, tzinfo=UTC)
    assert bounds.end == datetime(2026, 3, 29, 21, tzinfo=UTC)


@pytest.mark.parametrize("zone", [BERLIN, SHANGHAI, BEIRUT])
@pytest.mark.parametrize("period", [Period.DAY, Period.MONTH])
def test_periods_of_a_year_follow_one_another_without_gap(period: Period, zone: ZoneInfo) -> None:
    bounds = bounds_of(period, zone, at("2026-01-01T00:00", zone))
    count = 0
    while bounds.start < at("2027-01-01T00:00", zone):
        assert bounds.end is not None
        assert bounds.holds(bounds.start)
        assert not bounds.holds(bounds.end)
        assert bounds_of(period, zone, bounds.end - timedelta(microseconds=1)) == bounds
        bounds, count = bounds_of(period, zone, bounds.end), count + 1
        assert bounds.start == bounds_of(period, zone, bounds.start).start
    assert count == (365 if period is Period.DAY else 12)


def test_a_month_is_that_of_the_zone() -> None:
    bounds = bounds_of(Period.MONTH, SHANGHAI, datetime(2026, 11, 30, 16, 30, tzinfo=UTC))
    assert bounds == Bounds(at("2026-12-01T00:00", SHANGHAI), at("2027-01-01T00:00", SHANGHAI))


def test_a_total_never_ends() -> None:
    early = bounds_of(Period.TOTAL, BERLIN, datetime(2000, 1, 1, tzinfo=UTC))
    assert early == bounds_of(Period.TOTAL, BERLIN, datetime(2090, 1, 1, tzinfo=UTC))
    assert early.end is None
