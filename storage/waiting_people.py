"""Who waits for a first token just now, told between worker processes through Redis. All of it may be lost."""

from __future__ import annotations

import time

import redis
import structlog

from core.ids import JobId

log = structlog.get_logger()

_KEY = "longleaf:waiting"
_LONGEST_SECONDS = 20.0
"""Who has waited so long is not counted any more: a worker that died forgets nobody for ever."""


class WaitingPeople:
    """A sorted set of jobs with the moment until which each counts. A failure is logged and counts nobody."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    def add(self, job_id: JobId) -> None:
        try:
            self._client.zadd(_KEY, {job_id: time.time() + _LONGEST_SECONDS})
        except redis.RedisError as error:
            log.warning("waiting.not_told", job_id=job_id, error=str(error))

    def remove(self, job_id: JobId) -> None:
        """Also those whose time is over, whoever they were."""
        try:
            pipe = self._client.pipeline(transaction=False)
            pipe.zrem(_KEY, job_id)
            pipe.zremrangebyscore(_KEY, "-inf", time.time())
            pipe.execute()
        except redis.RedisError as error:
            log.warning("waiting.not_told", job_id=job_id, error=str(error))

    def is_anyone(self) -> bool:
        try:
            return bool(self._client.zcount(_KEY, time.time(), "+inf"))
        except redis.RedisError as error:
            log.warning("waiting.not_heard", error=str(error))
            return False
