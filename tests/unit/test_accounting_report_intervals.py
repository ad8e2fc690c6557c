"""Intervals that are named, on the clocks of a zone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from accounting.report_intervals import IntervalName, named_interval
from core.errors import InvalidInput

NOW = datetime(2026, 2, 28, 16, 30, tzinfo=UTC)  # 1 March, 00:30, in Shanghai; a Sunday


@pytest.mark.parametrize(
    ("name", "zone", "start", "end"),
    [
        ("last_day", "UTC", "2026-02-27T00:00", "2026-02-28T00:00"),
        ("last_day", "Asia/Shanghai", "2026-02-27T16:00", "2026-02-28T16:00"),
        ("last_week", "UTC", "2026-02-16T00:00", "2026-02-23T00:00"),
        ("last_month", "UTC", "2026-01-01T00:00", "2026-02-01T00:00"),
        ("last_month", "Asia/Shanghai", "2026-01-31T16:00", "2026-02-28T16:00"),
        ("month_to_date", "UTC", "2026-02-01T00:00", "2026-02-28T16:30"),
        ("month_to_date", "Asia/Shanghai", "2026-02-28T16:00", "2026-02-28T16:30"),
    ],
)
def test_the_last_one_that_is_over_or_the_month_until_now(
    name: IntervalName, zone: str, start: str, end: str
) -> None:
    found = named_interval(name, zone, now=NOW)
    assert found.start == datetime.fromisoformat(f"{start}+00:00")
    assert found.end == datetime.fromisoformat(f"{end}+00:00")


def test_a_month_that_begins_now_has_an_interval_all_the_same() -> None:
    begun = datetime(2026, 3, 1, tzinfo=UTC)
    found = named_interval("month_to_date", "UTC", now=begun)
    assert found.start == begun
    assert found.end is not None
    assert found.end > begun


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no time zone 'Mars/Olympus'"):
        named_interval("last_day", "Mars/Olympus", now=NOW)
