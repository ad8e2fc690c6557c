"""Rate limits: token buckets in Redis, one for each key and one for each tenant.

A bucket holds what may be had in a minute and fills evenly, so that who was idle may have a minute's worth
at once. All of it may be lost: where Redis is away, everybody is let in.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import redis
import structlog
from redis.backoff import NoBackoff
from redis.retry import Retry

from core.clock import Clock, utc_now
from core.errors import RateLimited
from core.settings import LimitSettings
from tenancy.principal import Principal

log = structlog.get_logger()

Unit = Literal["requests", "tokens"]

WINDOW_SECONDS = 60

# Takes from all buckets or from none, in one step. What is more than a whole bucket is let in once that is
# full, and leaves it in debt. Clocks of several machines differ: none sets a bucket back.
_TAKE = """
local now, amount = tonumber(ARGV[1]), tonumber(ARGV[2])
local levels, at, wait = {}, {}, 0
for i, key in ipairs(KEYS) do
  local capacity = tonumber(ARGV[i + 2])
  local found = redis.call('HMGET', key, 'level', 'at')
  at[i] = math.max(now, tonumber(found[2]) or now)
  levels[i] = math.min(capacity, (tonumber(found[1]) or capacity)
    + (at[i] - (tonumber(found[2]) or now)) * capacity / 60000)
  local lacking = math.min(amount, capacity) - levels[i]
  if lacking > 0 then wait = math.max(wait, math.ceil(lacking * 60000 / capacity)) end
end
local left = {}
for i, key in ipairs(KEYS) do
  local capacity = tonumber(ARGV[i + 2])
  if wait == 0 then levels[i] = levels[i] - amount end
  redis.call('HSET', key, 'level', string.format('%.17g', levels[i]), 'at', string.format('%.0f', at[i]))
  redis.call('PEXPIRE', key, math.ceil((capacity - levels[i]) * 60000 / capacity) + 60000)
  left[i] = math.floor(levels[i])
end
return {wait, left}
"""


@dataclass(frozen=True, slots=True)
class Bucket:
    """How a bucket stands after a request: `left` of `per_minute`; below 0 it is in debt."""

    policy: str
    per_minute: int
    left: int

    @property
    def seconds_until_full(self) -> int:
        return math.ceil((self.per_minute - self.left) * WINDOW_SECONDS / self.per_minute)


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of a request; with `wait_seconds` nothing was taken."""

    unit: Unit
    amount: int
    buckets: tuple[Bucket, ...] = ()
    wait_seconds: int = 0

    def require(self) -> None:
        """Raises `RateLimited`, naming the bucket, unless it was taken."""
        if not self.wait_seconds:
            return
        short = next(each for each in self.buckets if each.left < min(self.amount, each.per_minute))
        whose = short.policy.removeprefix(f"{self.unit}-per-")
        raise RateLimited(
            f"A {whose} may have {short.per_minute:,} {self.unit} per minute; {max(0, short.left):,} are left.",
            remedy=f"Try again in {self.wait_seconds} s.",
            policy=short.policy,
            limit=short.per_minute,
            retry_after_seconds=self.wait_seconds,
        )


class RateLimiter:
    """Buckets of the limits that are set; where none is, Redis is not asked.

    Args:
        url: of Redis or Valkey.
        patience_seconds: how long Redis gets to answer.
        rest_seconds: how long it is left alone when it did not.
    """

    def __init__(
        self,
        url: str,
        limits: LimitSettings,
        *,
        clock: Clock = utc_now,
        patience_seconds: float = 0.25,
        rest_seconds: float = 5.0,
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._rest_seconds = rest_seconds
        self._away_until = 0.0
        self._lock = threading.Lock()
        self._client: redis.Redis = redis.Redis.from_url(
            url,
            socket_timeout=patience_seconds,
            socket_connect_timeout=patience_seconds,
            retry=Retry(NoBackoff(), 0),
        )
        self._take = self._client.register_script(_TAKE)

    def take(self, principal: Principal, unit: Unit, amount: int = 1) -> Taken:
        """Take so much of the buckets of the caller's key and tenant, of both or of none.

        There are no buckets where there is no such limit, nor where Redis does not answer.
        """
        buckets = self._buckets(unit)
        if not buckets or (found := self._ask(principal, unit, amount, buckets)) is None:
            return Taken(unit, amount)
        wait_milliseconds, left = found
        standings = tuple(
            Bucket(f"{unit}-per-{whose}", per_minute, int(each))
            for (whose, per_minute), each in zip(buckets, left, strict=True)
        )
        return Taken(unit, amount, standings, math.ceil(wait_milliseconds / 1000))

    def close(self) -> None:
        self._client.close()

    def _buckets(self, unit: Unit) -> list[tuple[Literal["key", "tenant"], int]]:
        limits = self._limits
        of_key, of_tenant = (
            (limits.requests_per_key, limits.requests_per_tenant)
            if unit == "requests"
            else (limits.tokens_per_key, limits.tokens_per_tenant)
        )
        return [*([("key", of_key)] if of_key else ()), *([("tenant", of_tenant)] if of_tenant else ())]

    def _ask(
        self, principal: Principal, unit: Unit, amount: int, buckets: Sequence[tuple[str, int]]
    ) -> tuple[int, list[int]] | None:
        with self._lock:
            if time.monotonic() < self._away_until:
                return None
        owners = {"key": principal.key_id, "tenant": principal.tenant_id}
        now = round(self._clock().timestamp() * 1000)
        try:
            # The braces keep both on one machine of a cluster.
            found: Any = self._take(
                keys=[
                    f"longleaf:rate:{{{principal.tenant_id}}}:{unit}:{owners[whose]}" for whose, _ in buckets
                ],
                args=[now, amount, *(per_minute for _, per_minute in buckets)],
            )
        except redis.RedisError as error:
            with self._lock:
                self._away_until = time.monotonic() + self._rest_seconds
            log.warning("rate_limits.no_redis", error=str(error), rest_seconds=self._rest_seconds)
            return None
        return found[0], found[1]
