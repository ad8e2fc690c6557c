"""A job's stream by the versions of its row."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from api.job_changes import is_told, job_changes, parse_last_version
from api.job_events import JobEventReader
from api.schemas.jobs import Job
from core.errors import InvalidInput
from core.ids import JobId

NOW = datetime(2026, 12, 1, tzinfo=UTC)


class Waits(JobEventReader):
    def __init__(self) -> None:
        """There is no Redis."""

    async def wait_for_state(self, job_id: JobId, *, after: str) -> str:
        return after


def job(version: int, status: str) -> Job:
    return Job.model_validate(
        {
            "id": "job_1",
            "kind": "ingest",
            "queue": "ingest",
            "status": status,
            "collection_id": None,
            "progress": {},
            "attempt": 1,
            "max_attempts": 3,
            "version": version,
            "error": None,
            "created_at": NOW,
            "started_at": None,
            "finished_at": None,
            "deadline_at": None,
            "schedule_id": None,
        }
    )


def told(story: Sequence[Job], *, seen: int = 0) -> list[tuple[str, str, str]]:
    """Event, id and status of each."""
    looks = iter(story)

    async def collect() -> list[bytes]:
        return [line async for line in job_changes(lambda: next(looks), Waits(), seen=seen)]

    lines = [line.decode().splitlines() for line in asyncio.run(collect())]
    return [(name[7:], number[4:], json.loads(data[6:])["status"]) for number, name, data, *_ in lines]


def test_every_change_that_was_met_is_told_once_and_last_the_end() -> None:
    story = [job(1, "queued"), job(1, "queued"), job(2, "running"), job(5, "running"), job(6, "succeeded")]
    assert told(story) == [
        ("job", "1", "queued"),
        ("job", "2", "running"),
        ("job", "5", "running"),
        ("end", "6", "succeeded"),
    ]


def test_who_resumes_hears_only_what_is_new() -> None:
    assert told([job(5, "running"), job(6, "failed")], seen=5) == [("end", "6", "failed")]


def test_the_end_is_never_told_twice() -> None:
    assert is_told(job(6, "failed"), seen=6)
    assert told([job(6, "failed")], seen=6) == []


def test_a_job_that_is_tried_again_goes_on_after_its_end() -> None:
    assert not is_told(job(7, "queued"), seen=6)
    assert told([job(7, "queued"), job(9, "succeeded")], seen=6) == [
        ("job", "7", "queued"),
        ("end", "9", "succeeded"),
    ]


@pytest.mark.parametrize("header", ["abc", "-1", "1-0", "9" * 19])
def test_a_foreign_id_is_refused(header: str) -> None:
    with pytest.raises(InvalidInput, match="Last-Event-ID"):
        parse_last_version(header)
