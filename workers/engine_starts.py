"""Notices that an engine has started: its cache is empty then, whatever it held before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx
import redis

from inference.engine_metrics import parse_counters

_KEY = "longleaf:engine-start:"
_TIMEOUT_SECONDS = 3.0


class EngineStarts:
    """Looks at when the engines' processes began. Of several relays the first to see it is told.

    What was seen is kept in Redis. Should that forget, engines seem to have started, which costs a
    prewarm of what is cached: next to nothing.
    """

    def __init__(self, urls: Sequence[str], *, api_key: str, client: redis.Redis) -> None:
        self._urls = urls
        self._client = client
        self._http = httpx.Client(
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            timeout=_TIMEOUT_SECONDS,
            trust_env=False,
        )

    def new_starts(self) -> list[str]:
        """URLs of engines that have started since they were last looked at, by anyone.

        Raises:
            redis.RedisError: Redis does not answer.
        """
        return [url for url in self._urls if self._is_new(url)]

    def close(self) -> None:
        self._http.close()

    def _is_new(self, url: str) -> bool:
        started_at = self._started_at(url)
        if started_at is None:
            return False  # down, or it does not tell
        known: Any = self._client.set(_KEY + url, repr(started_at), get=True)
        return known is None or known.decode() != repr(started_at)

    def _started_at(self, url: str) -> float | None:
        try:
            response = self._http.get(f"{url}/metrics")
        except httpx.HTTPError:
            return None
        return parse_counters(response.text).started_at if response.status_code == 200 else None
