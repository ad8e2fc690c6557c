"""A job as server-sent events: the job as it stood whenever it had changed, and its end.

SQL alone says what is told: an event's id is the `version` of the job's row. So a stream resumes after
a restart of everything, and however much the event store forgets; that only makes it tell sooner.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Callable

from fastapi.concurrency import run_in_threadpool

from api.job_events import START, JobEventReader
from api.schemas.jobs import Job
from api.streaming import HEARTBEAT_SECONDS, encode_event
from core.errors import InvalidInput
from core.ids import JobId
from storage.job_states import FINAL_STATUSES

_VERSION = re.compile(r"\d{1,18}")


def parse_last_version(header: str | None) -> int:
    """The last version that a client has seen; 0 where it has seen none.

    Raises:
        InvalidInput: it is no id that a stream gave.
    """
    if not header:
        return 0
    if _VERSION.fullmatch(header) is None:
        raise InvalidInput(
            f"Last-Event-ID {header[:50]!r} is not an id of this stream.",
            remedy="Send the `id` of the last event you have, or leave the header out.",
        )
    return int(header)


def is_told(job: Job, *, seen: int) -> bool:
    """Whether nothing is left to tell a client that has seen that version."""
    return job.status in FINAL_STATUSES and job.version <= seen


async def job_changes(
    look: Callable[[], Job],
    events: JobEventReader,
    *,
    seen: int = 0,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
) -> AsyncIterator[bytes]:
    """`job` for each version above `seen` that was met, and last `end`; what changes between two looks
    is one event."""
    read_to, said_at = START, time.monotonic()
    while True:
        job = await run_in_threadpool(look)
        if job.version > seen:
            seen, said_at = job.version, time.monotonic()
            name = "end" if job.status in FINAL_STATUSES else "job"
            yield encode_event(name, job.model_dump(mode="json"), str(job.version))
        if job.status in FINAL_STATUSES:
            return
        if time.monotonic() - said_at >= heartbeat_seconds:
            yield b": still working\n\n"
            said_at = time.monotonic()
        read_to = await events.wait_for_state(JobId(job.id), after=read_to)
