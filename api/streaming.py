"""Answers as server-sent events, and waiting for them without.

A client that goes away does not cancel its question, unless it asked so (`on_disconnect`): the worker
finishes the answer, stores it, and `GET /v1/answers/{id}` or a stream resumed by `Last-Event-ID`, from any
API process, gives it. `POST /v1/jobs/{id}/cancel` stops one.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from anyio import CancelScope
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from api.answer_views import AnswerReader
from api.job_events import FINISHED, START, JobEventReader
from api.problems import problem_of_job
from api.received_text import ReceivedText, end_of
from api.schemas.answers import Answer
from core.errors import InvalidInput
from core.ids import AnswerId, JobId
from storage.job_states import FINAL_STATUSES

MEDIA_TYPE = "text/event-stream"
EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events.",
        "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
    }
}
"""`responses=` of a route that streams."""

HEARTBEAT_SECONDS = 15.0
FORWARDED = frozenset({"started", "passages", "delta", "restart"})
ATTEMPT_BEGINS = frozenset({"started", "restart"})

_EVENT_ID = re.compile(r"\d{1,20}(-\d{1,20})?")


@dataclass(frozen=True, slots=True)
class FollowedAnswer:
    """An answer on its way, and how to hear of it. `on_left`: for when who asked goes away before its end."""

    answer_id: AnswerId
    job_id: JobId
    answers: AnswerReader
    events: JobEventReader
    instance: str
    request_id: str
    is_new: bool = False
    on_left: Callable[[], None] | None = None

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


async def _stays() -> bool:
    return False


async def wait_for_answer(
    followed: FollowedAnswer,
    *,
    timeout_seconds: float,
    has_left: Callable[[], Awaitable[bool]] = _stays,
) -> Answer:
    """The answer as soon as it has ended, or as it is when the time is over, or who asked has left."""
    if timeout_seconds > 0:
        async for event in followed.events.follow(
            followed.job_id,
            has_ended=lambda: followed.answers.has_ended(followed.job_id),
            is_new=followed.is_new,
            timeout_seconds=timeout_seconds,
        ):
            if event is None and followed.on_left is not None and await has_left():
                await run_in_threadpool(followed.on_left)
                break
            if event is None or event.name != FINISHED:
                continue
            answer = await run_in_threadpool(followed.answers.get, followed.answer_id)
            if answer.status in FINAL_STATUSES:
                return answer
    return await run_in_threadpool(followed.answers.get, followed.answer_id)


def stream_answer(followed: FollowedAnswer, *, after: str = START, announce: bool) -> StreamingResponse:
    """The answer's events after the one with id `after`; `announce`: begin with `accepted`."""
    return respond(answer_events(followed, after=after, announce=announce))


def respond(lines: AsyncIterator[bytes]) -> StreamingResponse:
    """The response that sends a stream's lines as they come."""
    return StreamingResponse(
        lines,
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
    ended = False
    try:
        async for line, is_last in _told(followed, after, announce, heartbeat_seconds):
            ended = is_last
            yield line
    finally:
        if not ended and followed.on_left is not None:
            # The task that is cancelled with the connection may still wait in here.
            with CancelScope(shield=True):
                await run_in_threadpool(followed.on_left)


async def _told(
    followed: FollowedAnswer, after: str, announce: bool, heartbeat_seconds: float
) -> AsyncIterator[tuple[bytes, bool]]:
    """Lines, each with whether it is the last."""
    received = await _received(followed, after)
    last_id = after
    if announce:
        accepted = {"answer_id": followed.answer_id, "job_id": followed.job_id}
        yield encode_event("accepted", accepted, START), False
    last_sent = time.monotonic()
    async for event in followed.events.follow(
        followed.job_id,
        has_ended=lambda: followed.answers.has_ended(followed.job_id),
        after=after,
        is_new=followed.is_new,
    ):
        if event is None:
            if time.monotonic() - last_sent >= heartbeat_seconds:
                yield b": still working\n\n", False
                last_sent = time.monotonic()
            continue
        if event.name in ATTEMPT_BEGINS:
            received.begin()
        verdict = received.receive(event.data) if event.name == "delta" else "pass"
        if verdict == "restart":
            # Under the id it had: who resumes from it is found to lack text again.
            yield encode_event("restart", {"attempt": event.data.get("attempt", 1)}, last_id), False
        elif verdict == "pass" and event.name in FORWARDED:
            yield encode_event(event.name, event.data, event.id), False
            last_id, last_sent = event.id, time.monotonic()
        if event.name == FINISHED:
            answer = await run_in_threadpool(followed.answers.get, followed.answer_id)
            if answer.status in FINAL_STATUSES:
                yield _last_event(followed, answer, event.id), True
                return


async def _received(followed: FollowedAnswer, after: str) -> ReceivedText:
    """What of the text a client has whose last event is `after`."""
    if after == START:
        return ReceivedText()
    last = await followed.events.find(followed.job_id, after)
    if last is None:
        return ReceivedText(has_gap=True)
    return ReceivedText(num_characters=end_of(last.data, 0) if last.name == "delta" else 0)


def _last_event(followed: FollowedAnswer, answer: Answer, event_id: str) -> bytes:
    problem = followed.problem(answer)
    if problem is not None:
        return encode_event("error", problem, event_id)
    return encode_event("done", answer.model_dump(mode="json"), event_id)


def encode_event(name: str, data: Mapping[str, Any], event_id: str) -> bytes:
    """One server-sent event. JSON has no line breaks, so the data is one line."""
    head = f"id: {event_id}\n" if event_id else ""
    return f"{head}event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
