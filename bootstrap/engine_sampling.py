"""Reads the engines' counters beside the service and keeps them, for the ledger to be held against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import httpx

from core.clock import Clock, utc_now
from core.settings import Settings
from inference.engine_metrics import EngineCounters, parse_counters
from inference.registry import find_model
from storage.database import Database
from storage.engine_counters import add_sample, latest_sample
from storage.listings import count_open_jobs
from storage.models import EngineSample

_TIMEOUT_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class CountedEngine:
    """An endpoint, and the model it serves as the ledger calls it."""

    url: str
    model: str
    api_key: str = ""


ReadCounters = Callable[[CountedEngine], EngineCounters | None]
"""None: it is down, or does not tell."""


def sampled_engines(settings: Settings) -> list[CountedEngine]:
    """The generation engines, and the small model's where it has one of its own."""
    engine, small = settings.engine, settings.small_model
    model = find_model(engine.model, role="generator", revision=engine.revision).name
    found = [CountedEngine(url, model, engine.api_key) for url in settings.engine_urls]
    if small.url:
        url = small.url.rstrip("/").removesuffix("/v1")
        name = find_model(small.model or engine.model, role="generator", revision=small.revision).name
        found.append(CountedEngine(url, name, small.api_key))
    return found


def read_counters(engine: CountedEngine) -> EngineCounters | None:
    """Its counters now."""
    headers = {"Authorization": f"Bearer {engine.api_key}"} if engine.api_key else {}
    try:
        # Only core/settings.py reads the environment.
        with httpx.Client(trust_env=False, timeout=_TIMEOUT_SECONDS) as http:
            response = http.get(f"{engine.url}/metrics", headers=headers)
    except httpx.HTTPError:
        return None
    counters = parse_counters(response.text) if response.status_code == 200 else None
    return counters if counters is not None and counters.started_at is not None else None


class EngineSampler:
    """Looks at each engine, and keeps what has changed since it last did."""

    def __init__(
        self,
        database: Database,
        engines: Sequence[CountedEngine],
        *,
        read: ReadCounters = read_counters,
        clock: Clock = utc_now,
    ) -> None:
        self._database = database
        self._engines = engines
        self._read = read
        self._clock = clock
        self._seen: dict[str, _Seen] = {}

    def sample(self) -> int:
        """How many samples were kept. Asks SQL for writing only where there is one to keep."""
        read = [(engine, self._read(engine)) for engine in self._engines]
        now = self._clock()  # after: what was counted by then is in the counters, or under way
        found = [(engine, counters) for engine, counters in read if counters is not None]
        is_quiet = not any(each.num_running + each.num_waiting for _, each in found) and self._has_no_jobs()
        changed = [
            sample
            for engine, counters in found
            if (sample := self._changed(engine, counters, now, is_quiet=is_quiet)) is not None
        ]
        if changed:
            with self._database.write() as session:
                for sample in changed:
                    add_sample(session, sample)
        return len(changed)

    def _has_no_jobs(self) -> bool:
        with self._database.read() as session:
            return not any(
                number for (_, status), number in count_open_jobs(session).items() if status == "running"
            )

    def _changed(
        self, engine: CountedEngine, counters: EngineCounters, now: datetime, *, is_quiet: bool
    ) -> EngineSample | None:
        before = self._seen.get(engine.url) or self._load(engine)
        sample = EngineSample(
            engine=engine.url,
            model=engine.model,
            started_at=datetime.fromtimestamp(counters.started_at or 0.0, UTC),
            sampled_at=now,
            prompt_tokens=counters.prompt_tokens,
            cached_tokens=counters.cached_tokens,
            generation_tokens=counters.generation_tokens,
            busy_seconds=0.0,
            is_quiet=is_quiet,
        )
        is_open = bool(counters.num_running + counters.num_waiting)
        same_process = before is not None and before.sample.started_at == sample.started_at
        moved = before is None or _state(before.sample) != _state(sample)
        if before is not None and same_process:
            worked = before.is_open or _tokens(before.sample) != _tokens(sample)
            waited = (now - before.looked_at).total_seconds() if worked and before.is_own else 0.0
            sample.busy_seconds = before.sample.busy_seconds + waited
            if not moved and before.is_open:
                moved = True  # its time goes on though it has counted nothing
        self._seen[engine.url] = _Seen(sample, now, is_open, is_own=True)
        return sample if moved else None

    def _load(self, engine: CountedEngine) -> _Seen | None:
        with self._database.read() as session:
            known = latest_sample(session, engine.url, model=engine.model)
        return None if known is None else _Seen(known, known.sampled_at, is_open=False, is_own=False)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The look before this one; `is_own`: by this process, so that the time since is known."""

    sample: EngineSample
    looked_at: datetime
    is_open: bool
    is_own: bool


def _tokens(sample: EngineSample) -> tuple[int, int, int]:
    return sample.prompt_tokens, sample.cached_tokens, sample.generation_tokens


def _state(sample: EngineSample) -> tuple[object, ...]:
    return sample.started_at, sample.is_quiet, *_tokens(sample)
