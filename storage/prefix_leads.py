"""Who is computing which prompt prefix just now, told between worker processes through Redis.

A key stands for one prefix on one engine. Its value is a lead (`<ticket>:<owner>`) from when its
leader sends it until the leader's first token, then `+` for as long as the prefix is likely to stay
in the engine's cache. All of it may be lost: then prefixes are computed as if nobody knew.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import redis
import structlog
from redis.backoff import NoBackoff
from redis.retry import Retry

log = structlog.get_logger()

_KEY = "longleaf:prefix:"
_TICKETS = "longleaf:prefix-tickets"
# Takes every free prefix and finds, in one step, the longest that is held and the longest that
# another one leads. Each claim sees the whole of all earlier ones, so two attempts can come to wait
# for each other only after two leaders failed; the bound on waiting ends that.
_CLAIM = """
local owner, held, led, leader = ARGV[1], 0, 0, ''
local mine = redis.call('INCR', KEYS[1]) .. ':' .. owner
for i = 2, #KEYS do
  local value = redis.call('GET', KEYS[i])
  if not value then
    redis.call('SET', KEYS[i], mine, 'PX', ARGV[2])
  elseif value == '+' then
    held = i - 1
  elseif string.match(value, ':(.*)') ~= owner then
    led, leader = i - 1, value
  end
end
return {held, led, leader}
"""
_RENEW = """
for _, key in ipairs(KEYS) do
  local value = redis.call('GET', key)
  if value and string.match(value, ':(.*)') == ARGV[1] then redis.call('PEXPIRE', key, ARGV[2]) end
end
"""
_GIVE_UP = """
for _, key in ipairs(KEYS) do
  local value = redis.call('GET', key)
  if value and string.match(value, ':(.*)') == ARGV[1] then redis.call('DEL', key) end
end
"""


@dataclass(frozen=True, slots=True)
class Claim:
    """What stands about a list of prefixes, shortest first, counted from 1; 0 is none.

    `num_held` is the longest that the engine has computed lately, `num_led` the longest that
    another one computes now; `leader` is the lead that it does so under.
    """

    num_held: int = 0
    num_led: int = 0
    leader: str = ""


class PrefixLeads:
    """Leads in Redis. After a failure Redis is left alone for some seconds, so that no question
    is held up by more than a moment.

    Args:
        url: of Redis or Valkey.
        lease_seconds: a lead that is not renewed so long is over: its process has died.
        held_seconds: how long a computed prefix is taken to be in the engine's cache.
        patience_seconds: the moment that Redis gets to answer.
    """

    def __init__(
        self,
        url: str,
        *,
        lease_seconds: float = 5.0,
        held_seconds: float = 300.0,
        patience_seconds: float = 0.25,
        rest_seconds: float = 10.0,
    ) -> None:
        self.lease_seconds = lease_seconds
        self._held_milliseconds = round(held_seconds * 1000)
        self._rest_seconds = rest_seconds
        self._away_until = 0.0
        self._lock = threading.Lock()
        self._client: redis.Redis = redis.Redis.from_url(
            url,
            socket_timeout=patience_seconds,
            socket_connect_timeout=patience_seconds,
            retry=Retry(NoBackoff(), 0),
        )
        self._claim = self._client.register_script(_CLAIM)
        self._renew = self._client.register_script(_RENEW)
        self._give_up = self._client.register_script(_GIVE_UP)

    def claim(self, prefixes: Sequence[str], owner: str) -> Claim | None:
        """Lead those of `prefixes` that nobody leads or holds; None where Redis is away.

        Args:
            prefixes: shortest first; at least one.
            owner: unique to the attempt, which may claim again.
        """
        found: Any = self._ask(
            lambda: self._claim(keys=[_TICKETS, *map(_key, prefixes)], args=[owner, self._lease_milliseconds])
        )
        if found is None:
            return None
        num_held, num_led, leader = found
        return Claim(int(num_held), int(num_led), leader.decode())

    def is_led(self, prefix: str, leader: str) -> bool:
        """Whether `leader`, of a claim, still computes `prefix`; False where Redis is away."""
        value: Any = self._ask(lambda: self._client.get(_key(prefix)))
        return value is not None and value.decode() == leader

    def renew(self, prefixes: Sequence[str], owner: str) -> None:
        """Keep what the owner leads of them for another `lease_seconds`."""
        self._ask(lambda: self._renew(keys=list(map(_key, prefixes)), args=[owner, self._lease_milliseconds]))

    def mark_held(self, prefixes: Sequence[str]) -> None:
        """The engine has computed them: nobody need wait."""

        def mark() -> None:
            pipe = self._client.pipeline(transaction=False)
            for prefix in prefixes:
                pipe.set(_key(prefix), "+", px=self._held_milliseconds)
            pipe.execute()

        self._ask(mark)

    def give_up(self, prefixes: Sequence[str], owner: str) -> None:
        """The owner's leads end without a token: the first of those who wait takes over."""
        self._ask(lambda: self._give_up(keys=list(map(_key, prefixes)), args=[owner]))

    def close(self) -> None:
        self._client.close()

    @property
    def _lease_milliseconds(self) -> int:
        return round(self.lease_seconds * 1000)

    def _ask(self, question: Any) -> Any:
        """The answer of Redis, None where it is away or lately was."""
        with self._lock:
            if time.monotonic() < self._away_until:
                return None
        try:
            return question()
        except redis.RedisError as error:
            with self._lock:
                self._away_until = time.monotonic() + self._rest_seconds
            log.warning("prefix_leads.no_redis", error=str(error), rest_seconds=self._rest_seconds)
            return None


def _key(prefix: str) -> str:
    return _KEY + prefix
