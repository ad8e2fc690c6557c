"""When schedules are due, held against a walk over the minutes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InvalidInput
from schedules.catch_up import MAX_CAUGHT_UP, CatchUp, choose_slots
from schedules.timetable import Timetable, make_timetable

MINUTE = timedelta(minutes=1)


def timetable(
    cron: str | None = None,
    zone: str = "UTC",
    every: int | None = None,
    start: datetime | None = None,
    end: datetime | None = None,
) -> Timetable:
    return make_timetable(cron=cron, time_zone=zone, every_seconds=every, start_at=start, end_at=end)


def at(text: str, zone: str = "UTC") -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


def shown(table: Timetable, after: datetime, zone: str, count: int) -> list[str]:
    slots = islice(table.slots_after(after), count)
    return [slot.astimezone(ZoneInfo(zone)).strftime("%d %H:%M %z") for slot in slots]


@pytest.mark.parametrize(
    ("cron", "zone", "after", "expected"),
    [
        # Berlin leaves out 02:00 to 03:00 on 29 March 2026, and has it twice on 25 October.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["29 03:00 +0200", "30 02:30 +0200"]),
        ("0,30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["29 03:00 +0200", "30 02:00 +0200"]),
        ("30 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00", ["29 03:00 +0200", "29 03:30 +0200"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", ["25 02:30 +0200", "26 02:30 +0100"]),
        (
            "0 * * * *",
            "Europe/Berlin",
            "2026-03-28T23:30",
            ["29 00:00 +0100", "29 01:00 +0100", "29 03:00 +0200"],
        ),
        (
            "0 * * * *",
            "Europe/Berlin",
            "2026-10-25T01:30",
            ["25 02:00 +0200", "25 02:00 +0100", "25 03:00 +0100"],
        ),
        ("*/30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["30 02:00 +0200", "30 02:30 +0200"]),
        # Lord Howe's clocks jump by half an hour.
        ("*/30 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", ["04 02:30 +1100", "05 02:00 +1100"]),
        ("0 3 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", ["04 03:00 +1100", "05 03:00 +1100"]),
        # Santiago leaves out midnight itself, Samoa left out a whole day.
        ("0 0 * * *", "America/Santiago", "2026-09-05T12:00", ["06 01:00 -0300", "07 00:00 -0300"]),
        (
            "0 12 * * *",
            "Pacific/Apia",
            "2011-12-29T00:00",
            ["29 12:00 -1000", "31 00:00 +1400", "31 12:00 +1400"],
        ),
        ("0 9 L * *", "Asia/Shanghai", "2026-01-31T08:00", ["31 09:00 +0800", "28 09:00 +0800"]),
    ],
)
def test_clock_changes(cron: str, zone: str, after: str, expected: list[str]) -> None:
    assert shown(timetable(cron, zone), at(after, zone), zone, len(expected)) == expected


def test_a_moment_inside_the_hour_that_comes_twice_has_its_next_slot_after_it() -> None:
    second_time = at("2026-10-25T01:15")  # 02:15 in Berlin, for the second time
    assert shown(timetable("30 2 * * *", "Europe/Berlin"), second_time, "Europe/Berlin", 1) == [
        "26 02:30 +0100"
    ]


def test_an_interval_is_counted_from_its_start_and_does_not_drift() -> None:
    table = timetable(every=3600, start=at("2026-03-29T00:10"), end=at("2026-03-29T03:10"))
    late = at("2026-03-29T01:59:59")
    assert list(table.slots_after(late)) == [at("2026-03-29T02:10")]
    assert table.next_after(at("2020-01-01T00:00")) == at("2026-03-29T00:10")


def test_a_slot_at_the_start_counts_and_one_at_the_end_does_not() -> None:
    table = timetable("0 6 * * *", start=at("2026-05-01T06:00"), end=at("2026-05-03T06:00"))
    assert list(table.slots_after(at("2026-01-01T00:00"))) == [at("2026-05-01T06:00"), at("2026-05-02T06:00")]


CRONS = [
    "*/7 * * * *",
    "0 * * * *",
    "15 */5 * * *",
    "30 2 * * *",
    "0,45 0,2,3 * * *",
    "5 1 1,29 * SUN",
    "* 2 * * *",
]
ZONES = ["Europe/Berlin", "America/New_York", "America/Santiago", "Australia/Lord_Howe", "Antarctica/Troll"]


@settings(max_examples=40)
@given(
    cron=st.sampled_from(CRONS),
    zone=st.sampled_from(ZONES),
    day=st.integers(0, 364),
    minutes=st.integers(1, 4000),
)
def test_the_newest_slot_is_the_last_of_all(cron: str, zone: str, day: int, minutes: int) -> None:
    table, first = timetable(cron, zone), at("2026-01-01T00:00") + timedelta(days=day)
    last = first + minutes * MINUTE
    slots = list(table.slots(first, last))
    assert table.newest(first, last) == (slots[-1] if slots else None)
    assert slots == sorted(set(slots))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"cron": "0 0 30 2 *"}, "never fires"),
        ({"cron": "0 0 31 4,6,9,11 *"}, "never fires"),
        ({"cron": "0 0 32 * *"}, "day-of-month is wrong"),
        ({"cron": "61 * * * *"}, "minute is wrong"),
        ({"cron": "每天 六点 * * *"}, "minute is wrong"),
        ({"cron": "* * * * * *"}, "has 6 fields"),
        ({"cron": ""}, "has 0 fields"),
        ({"cron": "0 6 * * *", "zone": "Mars/Olympus"}, "no time zone 'Mars/Olympus'"),
        ({"cron": "0 6 * * *", "zone": "../etc/passwd"}, "no time zone"),
        ({"cron": "0 6 * * *", "every": 3600}, "both `cron` and `every_seconds`"),
        ({}, "neither `cron` nor `every_seconds`"),
        ({"every": 59}, "from 60 to"),
        ({"every": 10**9}, "from 60 to"),
        ({"every": 60, "start": at("2026-01-02T00:00"), "end": at("2026-01-01T00:00")}, "not after"),
        ({"every": 60, "start": datetime(9999, 1, 1, tzinfo=UTC)}, "from 1970 to 2200"),
    ],
)
def test_what_is_no_timetable_is_refused_with_what_to_do(given: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as refused:
        timetable(**given)  # type: ignore[arg-type]
    assert refused.value.remedy


@given(st.text("0123456789*/-,#LWMONFEB ", max_size=25))
def test_an_expression_is_taken_or_refused_and_never_breaks(expression: str) -> None:
    try:
        table = timetable(expression, "Europe/Berlin")
    except InvalidInput:
        return
    assert table.next_after(at("2026-01-01T00:00")) is not None


HOURLY = timetable("0 * * * *")


@pytest.mark.parametrize(
    ("policy", "now", "run", "skipped"),
    [
        ("skip", "2026-05-01T03:00:10", ["03:00"], ("01:00", "02:00")),
        ("skip", "2026-05-01T03:05:00", [], ("01:00", "03:00")),
        ("latest", "2026-05-01T03:00:10", ["03:00"], ("01:00", "02:00")),
        ("latest", "2026-05-01T03:05:00", ["03:00"], ("01:00", "02:00")),
        ("all", "2026-05-01T03:05:00", ["01:00", "02:00", "03:00"], None),
        ("skip", "2026-05-01T01:01:00", ["01:00"], None),
    ],
)
def test_catching_up(policy: CatchUp, now: str, run: list[str], skipped: tuple[str, str] | None) -> None:
    due = choose_slots(HOURLY, at("2026-05-01T01:00"), at(now), policy)
    assert [f"{slot:%H:%M}" for slot in due.run] == run
    assert (due.skipped and tuple(f"{slot:%H:%M}" for slot in due.skipped)) == skipped


def test_all_makes_up_for_the_newest_hundred_and_says_which_it_skips() -> None:
    first, now = at("2026-05-01T00:00"), at("2026-06-01T00:00")
    due = choose_slots(HOURLY, first, now, "all")
    assert len(due.run) == MAX_CAUGHT_UP == 100
    assert due.run[-1] == now
    assert due.skipped == (first, due.run[0] - timedelta(hours=1))
