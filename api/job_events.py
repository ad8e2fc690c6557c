"""A job's events as they happen: Redis says them at once, SQL says at least that it has ended."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import structlog
from fastapi.concurrency import run_in_threadpool
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from core.ids import JobId
from storage.events import stream_key

log = structlog.get_logger()

START = "0-0"
FINISHED = "finished"
MAX_CONNECTIONS = 512
AWAY_POLL_SECONDS = 0.25
"""While Redis is away SQL is all there is, so it is asked more often."""

_BATCH = 500


@dataclass(frozen=True, slots=True)
class JobEvent:
    """What the worker published. `id` is the stream's, empty where only SQL knew of the end."""

    id: str
    name: str
    data: dict[str, Any]


class JobEventReader:
    """Follows jobs over one pool of connections; a blocked read holds one of them.

    Args:
        url: of Redis or Valkey.
        poll_seconds: how long a silence may last before SQL is asked whether the job has ended.
    """

    def __init__(self, url: str, *, poll_seconds: float = 1.0) -> None:
        # A read that fails is answered by asking SQL, so the client itself never retries. A pool
        # with no free connection is waited for no longer than a silence.
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=MAX_CONNECTIONS,
            timeout=poll_seconds,
            retry=Retry(NoBackoff(), 0),
            socket_connect_timeout=2.0,
            socket_timeout=poll_seconds + 5.0,
        )
        self._redis: Redis = Redis.from_pool(pool)
        self._poll_seconds = poll_seconds

    async def follow(
        self,
        job_id: JobId,
        *,
        has_ended: Callable[[], bool],
        after: str = START,
        is_new: bool = False,
        timeout_seconds: float | None = None,
    ) -> AsyncIterator[JobEvent | None]:
        """Events after the one with id `after`, in order; None whenever nothing came for a while.

        The last one is `finished`, after which the caller should stop if SQL agrees; two may come
        where it has no id of the stream. It ends without one once `timeout_seconds` have passed.

        Args:
            has_ended: asks SQL; called in a thread.
            is_new: the job was made just now, so it is not worth asking SQL before waiting.
        """
        redis_away = False
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        patience = self._poll_seconds if is_new else 0.0
        while (room := _room(patience, deadline)) is not None:
            patience = self._poll_seconds
            events = await self._read(job_id, after, room)
            if events is None and not redis_away:
                log.warning("event.following_by_sql", job_id=job_id)  # once, however long it lasts
            redis_away = events is None
            for event in events or ():
                after = event.id
                yield event
            if events:
                continue
            if await run_in_threadpool(has_ended):
                # What was published before the end comes before the end.
                for event in await self._read(job_id, after, 0.0) or ():
                    yield event
                yield JobEvent("", FINISHED, {})
                return
            yield None
            if redis_away:
                await asyncio.sleep(min(self._poll_seconds, AWAY_POLL_SECONDS))

    async def wait_for_state(self, job_id: JobId, *, after: str) -> str:
        """Return once the job may have changed its state, or a silence's time is over; up to where was read.

        What a model writes meanwhile changes no state.
        """
        until = time.monotonic() + self._poll_seconds
        while (room := until - time.monotonic()) > 0:
            events = await self._read(job_id, after, room)
            if events is None:
                await asyncio.sleep(min(room, AWAY_POLL_SECONDS))
                return START  # it may have lost its memory
            for event in events:
                after = event.id
            if any(event.name != "delta" for event in events):
                break
        return after

    async def find(self, job_id: JobId, event_id: str) -> JobEvent | None:
        """The event with that id, if it is still known."""
        try:
            entries: Any = await self._redis.xrange(stream_key(job_id), event_id, event_id)
        except (RedisError, OSError):
            return None
        return _event(*entries[0]) if entries else None

    async def ping(self) -> None:
        """Raises `RedisError` unless Redis answers."""
        await self._redis.ping()

    async def aclose(self) -> None:
        await self._redis.aclose()

    async def _read(self, job_id: JobId, after: str, wait_seconds: float) -> list[JobEvent] | None:
        """What comes within `wait_seconds`, maybe nothing; None where Redis does not answer."""
        block = max(1, int(wait_seconds * 1000)) if wait_seconds > 0 else None
        try:
            streams = await self._redis.xread({stream_key(job_id): after}, count=_BATCH, block=block)
        except (RedisError, OSError):
            return None
        return [_event(*entry) for entry in _entries(streams)]


def _room(patience: float, deadline: float | None) -> float | None:
    """How long to wait now; None when the time is over."""
    if deadline is None:
        return patience
    left = deadline - time.monotonic()
    return None if left <= 0 else min(patience, left)


def _entries(streams: Any) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """The entries of the only stream read, in the shape of either protocol version."""
    if not streams:
        return []
    if isinstance(streams, dict):  # RESP3: {key: [[(id, fields), ...]]}
        batches = next(iter(streams.values()))
        return [entry for batch in batches for entry in batch]
    return list(streams[0][1])


def _event(entry_id: bytes, fields: dict[bytes, bytes]) -> JobEvent:
    return JobEvent(entry_id.decode(), fields[b"event"].decode(), json.loads(fields[b"data"]))
