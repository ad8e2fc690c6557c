"""Redis beside SQL: wake-ups of the relay and event streams of answers. All of it may be lost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import redis
import structlog

from core.ids import JobId

log = structlog.get_logger()

WAKE_KEY = "longleaf:relay:wake"


def stream_key(job_id: JobId) -> str:
    """The Redis stream of a job's events; entry ids are what `Last-Event-ID` carries."""
    return f"longleaf:events:{job_id}"


class EventBus:
    """Tells those who listen; nobody's correctness depends on being heard.

    Args:
        url: of Redis or Valkey.
        ttl_seconds: how long a job's events stay readable after the last one.
    """

    def __init__(self, url: str, *, ttl_seconds: int) -> None:
        self.client: redis.Redis = redis.Redis.from_url(url, health_check_interval=30)
        self._ttl_seconds = ttl_seconds

    def wake_relay(self) -> None:
        """Have the relay look at the outbox now. A failure is logged: its sweep comes anyway."""
        try:
            pipe = self.client.pipeline(transaction=False)
            pipe.lpush(WAKE_KEY, b"1")
            pipe.ltrim(WAKE_KEY, 0, 0)
            pipe.execute()
        except redis.RedisError as error:
            log.warning("relay.wake_failed", error=str(error))

    def wait_for_wake(self, timeout_seconds: float) -> bool:
        """True as soon as somebody woke the relay, False after the time."""
        return self.client.blpop([WAKE_KEY], timeout=timeout_seconds) is not None

    def queue_lengths(self, queues: Sequence[str]) -> list[int]:
        """Messages that wait in each Celery queue (a Redis list of that name)."""
        pipe = self.client.pipeline(transaction=False)
        for queue in queues:
            pipe.llen(queue)
        return [int(length) for length in pipe.execute()]

    def bring_forward(self, queue: str) -> None:
        """The message that was sent to the Celery queue last is the next to be taken.

        Should another relay send one just then, that one is: nothing is lost or doubled by it.
        """
        self.client.lmove(queue, queue, "LEFT", "RIGHT")

    def publish(self, job_id: JobId, event: str, data: dict[str, Any]) -> None:
        """Append an event to the job's stream. A failure is logged: SQL has the outcome."""
        key = stream_key(job_id)
        try:
            pipe = self.client.pipeline(transaction=False)
            pipe.xadd(key, {"event": event, "data": json.dumps(data, ensure_ascii=False)})
            pipe.expire(key, self._ttl_seconds)
            pipe.execute()
        except redis.RedisError as error:
            log.warning("event.publish_failed", job_id=job_id, kind=event, error=str(error))

    def close(self) -> None:
        self.client.close()
