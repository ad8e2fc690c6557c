from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from api.answer_views import AnswerReader
from api.job_events import JobEvent, JobEventReader
from api.schemas.answers import Answer
from api.streaming import FollowedAnswer, answer_events, encode_event, parse_last_event_id, wait_for_answer
from core.errors import InvalidInput
from core.ids import AnswerId, JobId


class Events(JobEventReader):
    """Tells a story; None is a silence."""

    def __init__(self, story: Sequence[JobEvent | None]) -> None:
        self._story = story

    async def follow(self, job_id: JobId, **_: Any) -> AsyncIterator[JobEvent | None]:
        for event in self._story:
            yield event


class Answers(AnswerReader):
    """Gives these statuses in turn, the last one for ever."""

    def __init__(self, *statuses: str) -> None:
        self._statuses = list(statuses)

    def get(self, answer_id: AnswerId) -> Answer:
        status = self._statuses.pop(0) if len(self._statuses) > 1 else self._statuses[0]
        return Answer.model_validate(ANSWER | {"status": status})


ANSWER: dict[str, Any] = {
    "id": "ans_1",
    "job_id": "job_1",
    "collection_id": "col_1",
    "question": "谁？",
    "mode": "extractive",
    "outcome": None,
    "text": "松树。",
    "conversation_id": None,
    "turn": None,
    "statements": [],
    "short_answer": None,
    "steps": {},
    "citations": [],
    "passages": [],
    "warnings": [],
    "finish_reason": None,
    "model": None,
    "usage": {"prompt_tokens": 0, "cached_tokens": 0, "completion_tokens": 0},
    "timings": {},
    "cost": None,
    "error": None,
    "accepted_at": datetime(2026, 11, 30, tzinfo=UTC),
    "finished_at": None,
}
FINISHED = JobEvent("9-0", "finished", {"status": "succeeded"})


def followed(story: Sequence[JobEvent | None], *statuses: str) -> FollowedAnswer:
    return FollowedAnswer(
        answer_id=AnswerId("ans_1"),
        job_id=JobId("job_1"),
        answers=Answers(*statuses),
        events=Events(story),
        instance="/v1/answers/ans_1/events",
        request_id="req_1",
    )


def read(stream: FollowedAnswer, *, announce: bool = False, heartbeat_seconds: float = 15.0) -> list[str]:
    async def collect() -> list[str]:
        lines = answer_events(stream, after="0-0", announce=announce, heartbeat_seconds=heartbeat_seconds)
        return [line.decode() async for line in lines]

    return asyncio.run(collect())


def test_an_event_is_one_line_of_json_with_its_id() -> None:
    event = encode_event("delta", {"text": "第一行\nsecond"}, "1-0").decode()
    assert event == 'id: 1-0\nevent: delta\ndata: {"text": "第一行\\nsecond"}\n\n'


def test_an_event_that_only_sql_knew_of_has_no_id_to_resume_from() -> None:
    assert encode_event("done", {}, "").startswith(b"event: done\n")


def test_silences_are_filled_with_comments() -> None:
    assert (
        read(followed([None, None, FINISHED], "succeeded"), heartbeat_seconds=0)[:2]
        == [": still working\n\n"] * 2
    )


def test_short_silences_are_left_alone() -> None:
    assert len(read(followed([None, None, FINISHED], "succeeded"))) == 1


def test_the_stream_ends_with_the_answer_as_sql_has_it() -> None:
    accepted, done = read(followed([FINISHED], "succeeded"), announce=True)
    assert accepted.startswith("id: 0-0\nevent: accepted\n")
    assert done.startswith("id: 9-0\nevent: done\n")
    assert json.loads(done.split("data: ", 1)[1])["text"] == "松树。"


def test_an_end_that_sql_does_not_confirm_is_waited_for() -> None:
    again = JobEvent("", "finished", {})
    assert [line.splitlines()[0] for line in read(followed([FINISHED, again], "running", "succeeded"))] == [
        "event: done"
    ]


def test_a_cancelled_answer_ends_in_a_problem() -> None:
    (error,) = read(followed([FINISHED], "cancelled"))
    problem = json.loads(error.split("data: ", 1)[1])
    assert (problem["code"], problem["status"], problem["request_id"]) == ("job_cancelled", 409, "req_1")


def test_events_of_a_newer_worker_are_not_passed_on() -> None:
    assert len(read(followed([JobEvent("1-0", "thought", {}), FINISHED], "succeeded"))) == 1


def test_waiting_gives_the_answer_as_it_is_when_the_time_is_over() -> None:
    answer = asyncio.run(wait_for_answer(followed([None], "running"), timeout_seconds=1))
    assert answer.status == "running"


@pytest.mark.parametrize(("header", "after"), [(None, "0-0"), ("", "0-0"), ("17-3", "17-3"), ("17", "17")])
def test_a_stream_resumes_where_it_is_told(header: str | None, after: str) -> None:
    assert parse_last_event_id(header) == after


@pytest.mark.parametrize("header", ["abc", "1-2-3", "-1", "0x1"])
def test_a_foreign_event_id_is_refused(header: str) -> None:
    with pytest.raises(InvalidInput, match="Last-Event-ID"):
        parse_last_event_id(header)
