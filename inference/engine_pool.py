"""Several engines that serve one model, as one generator."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Protocol, runtime_checkable

import structlog

from core.cancellation import wait_watchfully
from core.errors import (
    EngineOverloaded,
    EngineUnavailable,
    LongleafError,
    Misconfigured,
)
from core.priority import current_priority
from inference.admission import AdmissionPolicy, pause_seconds
from inference.controls import unmet_controls
from inference.engine_metrics import EngineCounters, total_counters
from inference.engine_watch import EngineWatch
from inference.pooled_engine import PooledEngine
from inference.protocols import EngineInfo, GenerationDelta, GenerationRequest
from inference.resident_prefixes import ResidentPrefixes
from inference.routing import Candidate, affinity, rank
from inference.tracked_generator import TrackedEngine

log = structlog.get_logger()

MAX_ROUNDS = 3
_FIRST_PAUSE_SECONDS = 0.2
_ELSEWHERE = (EngineUnavailable, EngineOverloaded, Misconfigured)
"""Failures of one engine that another may not have. `Misconfigured` is that of one which was started
again with another model or key."""


@runtime_checkable
class KnowsPrefixes(Protocol):
    """A client that follows what its engine's prefix cache holds."""

    def num_expected(self, request: GenerationRequest) -> int:
        """Tokens of the prompt that are cached, or about to be."""
        ...


class EnginePool:
    """A `Generator` over several. Where a request goes is `inference.routing`'s rule.

    A request whose engine fails before its first token goes to the next one; after it, the failure
    is the caller's. Engines that are down are left out until they answer again.

    Args:
        engines: at least one; their clients do not try again by themselves.
        max_imbalance: see `inference.routing.rank`.
        admission: how long a request waits for a place where all are full; by default not at all.
    """

    def __init__(
        self,
        engines: Sequence[PooledEngine],
        *,
        max_imbalance: int,
        admission: AdmissionPolicy | None = None,
    ) -> None:
        self.engines = tuple(engines)
        self.admission = admission or AdmissionPolicy()
        self._max_imbalance = max_imbalance
        self._model: PooledEngine | None = None  # the first one known: the others must serve the same
        self._unfit: dict[str, str] = {}
        self._watch = EngineWatch(self.engines)

    def info(self) -> EngineInfo:
        """What the pool can do: a control that one engine has is there, for requests are routed to it;
        what a prompt's secrecy or a bill hangs on is there only if all have it.

        Raises:
            Misconfigured: two engines serve different models or windows.
            EngineUnavailable, EngineIncapable: none can be used; why, of the last one asked.
        """
        infos = [engine.known for engine in self._usable() if engine.known is not None]
        return _merged(infos)

    def is_healthy(self) -> bool:
        """Whether at least one answers now."""
        return any(engine.client.is_healthy() for engine in self.engines)

    def engine_counters(self) -> EngineCounters:
        """Those of all engines that tell them, as of one.

        Raises:
            EngineUnavailable, EngineIncapable: none does.
        """
        found, failure = [], None
        for engine in self.engines:
            try:
                found.append(engine.client.engine_counters())
            except LongleafError as error:
                failure = error
        if not found and failure is not None:
            raise failure
        return total_counters(found)

    def prefix_caches(self) -> Sequence[ResidentPrefixes]:
        """Of each usable engine that is followed.

        Raises: as `info`.
        """
        clients = [engine.client for engine in self._usable()]
        return [client.prefixes for client in clients if isinstance(client, TrackedEngine)]

    def stop_following(self) -> None:
        """End the threads that listen to the engines' events."""
        for engine in self.engines:
            if isinstance(engine.client, TrackedEngine):
                engine.client.stop_following()

    @contextmanager
    def stream(self, request: GenerationRequest) -> Iterator[Iterator[GenerationDelta]]:
        """As `Generator.stream`; the first delta says by its `engine` who serves."""
        self._watch.keep_on()
        route = _Route(self, request)
        try:
            route.open()
            yield route.deltas()
        finally:
            route.close()

    def ranked(self, request: GenerationRequest) -> list[PooledEngine]:
        """The engines for a request, best first: those that can do it, or all if none can, which will
        say why.

        Raises: as `info`.
        """
        usable = self._usable()
        # One that is able and down is no reason to ask one that is not able.
        able = [e for e in self._fit() if e.known is not None and _can_serve(e.known, request)]
        able = [engine for engine in able if engine in usable] or able or usable
        by_name = {engine.name: engine for engine in able}
        candidates = [_candidate(engine, request) for engine in able]
        return [by_name[each.name] for each in rank(candidates, max_imbalance=self._max_imbalance)]

    def _usable(self) -> list[PooledEngine]:
        """Engines that are up, known and agree with each other; resting ones only if there are no others."""
        fit = self._fit()
        failure: LongleafError | None = None
        for group in ([e for e in fit if not e.is_resting], [e for e in fit if e.is_resting]):
            usable = []
            for engine in group:
                try:
                    engine.known = engine.known or engine.info()
                    usable.append(engine)
                except LongleafError as error:
                    failure = error
                    engine.rest()
                    log.warning("engine.unusable", engine=engine.name, url=engine.url, code=error.code)
            if usable:
                return self._agreeing(usable)
        assert failure is not None  # the first one known is always fit
        raise failure

    def _fit(self) -> list[PooledEngine]:
        return [engine for engine in self.engines if engine.name not in self._unfit]

    def _agreeing(self, usable: Sequence[PooledEngine]) -> list[PooledEngine]:
        """Those that serve what the first known one does; the others are a mistake of whoever set it up.

        Raises:
            Misconfigured: they disagree, and none of them has served yet.
        """
        model = self._model = self._model or usable[0]
        found = []
        for engine in usable:
            if _is_same(engine.known, model.known):
                found.append(engine)
                continue
            error = _disagreement(model, engine)
            if not any(each.num_served for each in self.engines):
                raise error
            # It came up late and wrong: what works goes on without it.
            self._unfit[engine.name] = str(error)
            log.error("engine.disagrees", engine=engine.name, url=engine.url, error=str(error))
        return found or [model]


class _Route:
    """One request's way through the pool."""

    def __init__(self, pool: EnginePool, request: GenerationRequest) -> None:
        self._pool = pool
        self._request = request
        self._tried: set[str] = set()
        self._round = 1
        patience = pool.admission.limit_seconds(request.priority or current_priority())
        self._until = time.monotonic() + patience
        self._num_refusals = 0
        self._open = ExitStack()
        self._engine: PooledEngine | None = None
        self._failure: LongleafError | None = None
        self._deltas: Iterator[GenerationDelta] = iter(())

    def open(self) -> None:
        """Send the request to the best engine that takes it.

        Raises: what the last one said.
        """
        while True:
            engine = self._next()
            try:
                self._deltas = self._open.enter_context(engine.stream(self._request))
            except _ELSEWHERE as error:
                self._leave(engine, error)
                continue
            self._engine = engine
            return

    def deltas(self) -> Iterator[GenerationDelta]:
        has_begun = False
        while True:
            try:
                for delta in self._deltas:
                    yield delta if has_begun else self._first(delta)
                    has_begun = True
                return
            except _ELSEWHERE as error:
                assert self._engine is not None
                if has_begun:
                    if isinstance(error, EngineUnavailable):
                        self._engine.rest()
                    raise
                self._open.close()
                self._leave(self._engine, error)
                self.open()

    def close(self) -> None:
        self._open.close()

    def _first(self, delta: GenerationDelta) -> GenerationDelta:
        assert self._engine is not None
        self._engine.has_served()
        return replace(delta, engine=self._engine.name)

    def _next(self) -> PooledEngine:
        left = [e for e in self._pool.ranked(self._request) if e.name not in self._tried]
        if not left:  # a round is over: what is full or restarting just now may answer in the next
            wait_watchfully(self._pause())
            self._tried.clear()
            left = self._pool.ranked(self._request)
        self._tried.add(left[0].name)
        return left[0]

    def _pause(self) -> float:
        """Seconds until the next round.

        Raises: the last failure, where there is none.
        """
        assert self._failure is not None
        if isinstance(self._failure, EngineOverloaded):
            self._num_refusals += 1
            pause = pause_seconds(self._num_refusals)
            if time.monotonic() + pause > self._until:
                raise self._failure
            return pause
        if self._round >= MAX_ROUNDS:
            raise self._failure
        self._round += 1
        return _FIRST_PAUSE_SECONDS * 2.0 ** (self._round - 2) * random.uniform(0.75, 1.25)

    def _leave(self, engine: PooledEngine, error: LongleafError) -> None:
        # That one is full says more than that another is down: a place will be free.
        if not isinstance(self._failure, EngineOverloaded) or not self._tried - {engine.name}:
            self._failure = error
        if not isinstance(error, EngineOverloaded):
            engine.rest()
        log.warning("engine.left", engine=engine.name, url=engine.url, code=error.code)


def _candidate(engine: PooledEngine, request: GenerationRequest) -> Candidate:
    return Candidate(
        engine.name,
        held_tokens=_held_tokens(engine, request),
        load=engine.load,
        affinity=affinity(engine.url, request.cache_salt, request.prompt_token_ids),
    )


def _held_tokens(engine: PooledEngine, request: GenerationRequest) -> int:
    if not isinstance(engine.client, KnowsPrefixes):
        return 0
    try:
        return engine.client.num_expected(request)
    except LongleafError:  # it went away before it told the blocks of its cache
        return 0


def _can_serve(info: EngineInfo, request: GenerationRequest) -> bool:
    if request.constraint is not None and not info.constrains_output:
        return False
    return not unmet_controls(request.sampling, info)


def _is_same(one: EngineInfo | None, other: EngineInfo | None) -> bool:
    return (
        one is not None
        and other is not None
        and (one.model, one.revision, one.max_model_len) == (other.model, other.revision, other.max_model_len)
    )


def _disagreement(one: PooledEngine, other: PooledEngine) -> Misconfigured:
    assert one.known is not None
    assert other.known is not None
    return Misconfigured(
        f"The engine at {one.url} serves {one.known.model} with a window of {one.known.max_model_len} tokens, "
        f"the one at {other.url} {other.known.model} with {other.known.max_model_len}.",
        remedy="All engines of LONGLEAF_ENGINE__URL must serve the same model with the same window.",
    )


def _merged(infos: Sequence[EngineInfo]) -> EngineInfo:
    controls = frozenset().union(*(info.controls for info in infos))
    return replace(
        infos[0],
        reports_cached_tokens=all(info.reports_cached_tokens for info in infos),
        reports_timings=all(info.reports_timings for info in infos),
        accepts_cache_salt=all(info.accepts_cache_salt for info in infos),
        accepts_priority=all(info.accepts_priority for info in infos),
        stops_repetition=all(info.stops_repetition for info in infos),
        constrains_output=any(info.constrains_output for info in infos),
        keeps_context=any(info.keeps_context for info in infos),
        controls=controls,
        speculates=all(info.speculates for info in infos),
        notes=tuple(dict.fromkeys(note for info in infos for note in info.notes)),
    )
