"""Intervals that are named, and move on with the clock."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Literal

from accounting.calendar import Interval, load_zone, parse_interval

IntervalName = Literal["last_day", "last_week", "last_month", "month_to_date"]


def named_interval(name: IntervalName, time_zone: str, *, now: datetime) -> Interval:
    """The day, the week from Monday or the month that was over last in the zone, or the month until now.

    Raises:
        InvalidInput: the zone is unknown.
    """
    zone = load_zone(time_zone)
    today = now.astimezone(zone).date()
    match name:
        case "last_day":
            start, end = today - timedelta(days=1), today
        case "last_week":
            end = today - timedelta(days=today.weekday())
            start = end - timedelta(days=7)
        case "last_month":
            end = today.replace(day=1)
            start = (end - timedelta(days=1)).replace(day=1)
        case "month_to_date":
            return _until_now(today.replace(day=1), now, time_zone)
    return parse_interval(start, end, time_zone)


def _until_now(start: date, now: datetime, time_zone: str) -> Interval:
    begun = parse_interval(start, None, time_zone)
    assert begun.start is not None
    # The month's first instant has nothing before it.
    return Interval(begun.start, max(now, begun.start + timedelta(microseconds=1)), begun.zone)
