"""Answers as server-sent events, and waiting for them without.

A client that goes away does not cancel its question: the worker finishes the answer, stores it, and
`GET /v1/answers/{id}` or a stream resumed by `Last-Event-ID` gives it. `POST /v1/jobs/{id}/cancel`
is how to stop one.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from api.answer_views import AnswerReader
from api.job_events import FINISHED, START, JobEventReader
from api.problems import problem_of_job
from api.schemas.answers import Answer
from core.errors import InvalidInput
from core.ids import AnswerId, JobId
from storage.job_states import FINAL_STATUSES

MEDIA_TYPE = "text/event-stream"
HEARTBEAT_SECONDS = 15.0
FORWARDED = frozenset({"started", "passages", "delta", "restart"})

_EVENT_ID = re.compile(r"\d{1,20}(-\d{1,20})?")


@dataclass(frozen=True, slots=True)
class FollowedAnswer:
    """An answer on its way, and how to hear of it."""

    answer_id: AnswerId
    job_id: JobId
    answers: AnswerReader
    events: JobEventReader
    instance: str
    request_id: str
    is_new: bool = False

    def problem(self, answer: Answer) -> dict[str, Any] | None:
        """The problem of an answer that ended without success."""
        if answer.status == "cancelled":
            code, detail = (
                "job_cancelled",
                f"Job {answer.job_id} was cancelled; answer {answer.id} stays empty.",
            )
        elif answer.status == "failed" and answer.error is not None:
            code, detail = answer.error.code, answer.error.detail
        else:
            return None
        return problem_of_job(
            code,
            detail,
            instance=self.instance,
            request_id=self.request_id,
            answer_id=answer.id,
            job_id=answer.job_id,
        )


async def wait_for_answer(followed: FollowedAnswer, *, timeout_seconds: float) -> Answer:
    """The answer as soon as it has ended, or as it is when the time is over."""
    if timeout_seconds > 0:
        async for event in followed.events.follow(
            followed.job_id,
            has_ended=lambda: followed.answers.has_ended(followed.job_id),
            is_new=followed.is_new,
            timeout_seconds=timeout_seconds,
        ):
            if event is None or event.name != FINISHED:
                continue
            answer = await run_in_threadpool(followed.answers.get, followed.answer_id)
            if answer.status in FINAL_STATUSES:
                return answer
    return await run_in_threadpool(followed.answers.get, followed.answer_id)


def stream_answer(followed: FollowedAnswer, *, after: str = START, announce: bool) -> StreamingResponse:
    """The answer's events after the one with id `after`; `announce`: begin with `accepted`."""
    return StreamingResponse(
        answer_events(followed, after=after, announce=announce),
        media_type=MEDIA_TYPE,
        # The second header keeps nginx from collecting events before it passes them on.
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


def parse_last_event_id(header: str | None) -> str:
    """Where to resume; without a header, at the beginning.

    Raises:
        InvalidInput: it is not an id that a stream gave.
    """
    if not header:
        return START
    if _EVENT_ID.fullmatch(header) is None:
        raise InvalidInput(
            f"Last-Event-ID {header[:50]!r} is not an id of this stream.",
            remedy="Send the `id` of the last event you have, or leave the header out.",
        )
    return header


async def answer_events(
    followed: FollowedAnswer, *, after: str, announce: bool, heartbeat_seconds: float = HEARTBEAT_SECONDS
) -> AsyncIterator[bytes]:
    """The lines of the stream, with a comment whenever nothing was said for `heartbeat_seconds`."""
    if announce:
        yield encode_event("accepted", {"answer_id": followed.answer_id, "job_id": followed.job_id}, START)
    last_sent = time.monotonic()
    async for event in followed.events.follow(
        followed.job_id,
        has_ended=lambda: followed.answers.has_ended(followed.job_id),
        after=after,
        is_new=followed.is_new,
    ):
        if event is None:
            if time.monotonic() - last_sent >= heartbeat_seconds:
                yield b": still working\n\n"
                last_sent = time.monotonic()
            continue
        if event.name in FORWARDED:
            yield encode_event(event.name, event.data, event.id)
            last_sent = time.monotonic()
        if event.name == FINISHED:
            answer = await run_in_threadpool(followed.answers.get, followed.answer_id)
            if answer.status in FINAL_STATUSES:
                yield _last_event(followed, answer, event.id)
                return


def _last_event(followed: FollowedAnswer, answer: Answer, event_id: str) -> bytes:
    problem = followed.problem(answer)
    if problem is not None:
        return encode_event("error", problem, event_id)
    return encode_event("done", answer.model_dump(mode="json"), event_id)


def encode_event(name: str, data: Mapping[str, Any], event_id: str) -> bytes:
    """One server-sent event. JSON has no line breaks, so the data is one line."""
    head = f"id: {event_id}\n" if event_id else ""
    return f"{head}event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
