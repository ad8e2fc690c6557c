"""A generator whose prefix cache is followed from outside."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from core.errors import EngineIncapable
from core.request_journal import JournalEntry, current_journal
from core.usage import TokenUsage
from inference.engine_metrics import EngineCache, EngineCounters
from inference.engine_time import EngineShare, EngineTime
from inference.kv_events import EventEndpoint, KvEventFollower
from inference.pooled_engine import EngineClient
from inference.protocols import EngineInfo, GenerationDelta, GenerationRequest, Generator
from inference.resident_prefixes import CacheGeometry, ResidentPrefixes

ASSUMED_GEOMETRY = CacheGeometry(block_tokens=16)
"""Of an engine that does not tell: vLLM's own default, and as much space as its replies show."""


@runtime_checkable
class TellsCache(Protocol):
    """An engine's client that can ask for the blocks of its cache; None where it does not say."""

    def engine_cache(self) -> EngineCache | None: ...


@runtime_checkable
class Follows(Protocol):
    """A generator that may listen to its engines in threads of its own."""

    def stop_following(self) -> None: ...


@runtime_checkable
class HoldsPrefixes(Generator, Protocol):
    """A generator whose engines' caches are followed, one or several."""

    def prefix_caches(self) -> Sequence[ResidentPrefixes]:
        """Of each engine that a request may go to; at least one.

        Raises:
            EngineUnavailable: none answers.
        """
        ...


@dataclass(slots=True)
class _Watched:
    """What became of a request so far."""

    num_cached: int  # known before it was sent; 0 of an engine that does not tell either
    usage: TokenUsage = field(default_factory=TokenUsage)
    has_begun: bool = False
    has_ended: bool = False


class TrackedGenerator:
    """Passes requests on to `generator` and notes what they leave in its prefix cache.

    The engine is asked for its blocks once, when the first request is planned or sent. From then on
    its events are followed too, where it publishes any (`events`).
    """

    def __init__(self, generator: Generator, *, events: EventEndpoint | None = None) -> None:
        self._generator = generator
        self._events = events
        self._time = EngineTime()
        self._prefixes: ResidentPrefixes | None = None
        self._follower: KvEventFollower | None = None
        self._lock = threading.Lock()

    @property
    def prefixes(self) -> ResidentPrefixes:
        """What the engine holds.

        Raises:
            EngineUnavailable: it was never asked yet, and does not answer.
        """
        with self._lock:
            if self._prefixes is None:
                self._prefixes = ResidentPrefixes(self._ask_geometry())
                if self._events is not None:
                    self._follower = KvEventFollower(self._events, self._prefixes)
                    self._follower.start()
            return self._prefixes

    def stop_following(self) -> None:
        """End the thread that listens to the engine's events, if there is one."""
        with self._lock:
            follower, self._follower = self._follower, None
        if follower is not None:
            follower.close()

    def prefix_caches(self) -> Sequence[ResidentPrefixes]:
        """The one engine's."""
        return (self.prefixes,)

    def num_expected(self, request: GenerationRequest) -> int:
        """Tokens of the prompt that are cached, or about to be."""
        return self.prefixes.num_expected(self._salt(request), request.prompt_token_ids)

    def info(self) -> EngineInfo:
        return self._generator.info()

    def is_healthy(self) -> bool:
        return self._generator.is_healthy()

    @contextmanager
    def stream(self, request: GenerationRequest) -> Iterator[Iterator[GenerationDelta]]:
        prefixes, salt, info = self.prefixes, self._salt(request), self.info()
        reports = info.reports_cached_tokens
        watched = _Watched(num_cached=prefixes.num_cached(salt, request.prompt_token_ids) if reports else 0)
        prompt = prefixes.sent(salt, request.prompt_token_ids)
        share = self._time.begin()
        entry = current_journal().open(info.model, info.revision)
        try:
            with self._generator.stream(request) as deltas:
                yield self._watch(deltas, watched, share, entry, lambda: prefixes.computed(prompt))
        finally:
            share.end()
            entry.close()
            if watched.has_begun:
                # Cached tokens are named at the end only.
                prefixes.finished(
                    prompt,
                    cached_tokens=watched.usage.cached_tokens if reports and watched.has_ended else None,
                    completion_tokens=watched.usage.completion_tokens,
                )
            else:
                prefixes.abandoned(prompt)

    def _salt(self, request: GenerationRequest) -> str:
        return salt_of(self.info(), request.cache_salt)

    def _ask_geometry(self) -> CacheGeometry:
        try:
            cache = self._generator.engine_cache() if isinstance(self._generator, TellsCache) else None
        except EngineIncapable:  # without metrics
            cache = None
        return ASSUMED_GEOMETRY if cache is None else CacheGeometry(cache.block_tokens, cache.num_blocks)

    def _watch(
        self,
        deltas: Iterator[GenerationDelta],
        watched: _Watched,
        share: EngineShare,
        entry: JournalEntry,
        begin: Callable[[], None],
    ) -> Iterator[GenerationDelta]:
        for delta in deltas:
            watched.usage = delta.usage
            watched.has_ended = delta.finish_reason is not None
            if not watched.has_begun and (delta.text or delta.usage.completion_tokens):
                watched.has_begun = True
                begin()
            usage = self._measured(delta, watched, share)
            # Before anybody hears of it: the first time this is written down, which takes milliseconds.
            entry.used(usage)
            yield replace(delta, usage=usage)

    def _measured(self, delta: GenerationDelta, watched: _Watched, share: EngineShare) -> TokenUsage:
        """The usage so far with its share of time, and with what was known to be cached until the
        engine says it, at the end: should the request be broken off, this is what is known of it."""
        usage, cached_tokens = delta.usage, delta.usage.cached_tokens
        if not watched.has_ended and not cached_tokens:
            cached_tokens = min(watched.num_cached, usage.prompt_tokens)
        return replace(usage, cached_tokens=cached_tokens, engine_seconds=share.seconds())


class TrackedEngine(TrackedGenerator):
    """The same of an engine that also tells its counters: a member of a pool, or the only one."""

    def __init__(self, client: EngineClient, *, events: EventEndpoint | None = None) -> None:
        super().__init__(client, events=events)
        self._client = client

    def engine_counters(self) -> EngineCounters:
        """As the client's; requests of other processes are then known to share the engine's time."""
        counters = self._client.engine_counters()
        self._time.heard(counters.num_running + counters.num_waiting)
        return counters


def salt_of(engine: EngineInfo, cache_salt: str) -> str:
    """What the engine really keeps prefixes apart by."""
    return cache_salt if engine.accepts_cache_salt else ""
