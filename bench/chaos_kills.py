"""Accidents: processes killed by SIGKILL, a broker that forgets everything, connections cut."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import httpx
import structlog
from sqlalchemy import create_engine, select, text

from embedded.children import ProcessOwner
from embedded.components import child, worker_spec
from embedded.processes import Supervisor
from embedded.stack import EmbeddedStack
from inference.engine_metrics import EngineCounters, parse_counters
from storage.database import Database
from storage.models import Job

log = structlog.get_logger()

ENGINE_EVERY_SECONDS = 150.0
"""An engine needs a good minute to start; killed more often, it would answer nothing at all."""

_TAKEUP_TIMEOUT_SECONDS = 120.0
_LOOK_SECONDS = 0.1
_PARTS = ("api", "relay", "interactive", "ingest", "valkey", "engine")
_SECOND = ("interactive-2", "ingest-2")


class SecondWorkers:
    """Another worker of each kind, as on a second machine, so that a dead one has a colleague."""

    def __init__(self, stack: EmbeddedStack) -> None:
        self._owner = ProcessOwner()
        self.supervisor = Supervisor()
        for queue in ("interactive", "ingest"):
            spec = worker_spec(queue, stack.settings)
            log_path = spec.log_path.with_name(f"{queue}-2.log")
            self.supervisor.start(child(replace(spec, name=f"{queue}-2", log_path=log_path), self._owner))

    def stop(self) -> None:
        self.supervisor.stop()
        self._owner.close()


@dataclass(slots=True)
class EngineTotals:
    """What the engine's own counters say, over all its lives."""

    _lives: dict[float, EngineCounters] = field(default_factory=dict)

    def look(self, url: str) -> None:
        """Note what the engine that lives now has counted; nothing where none answers."""
        try:
            response = httpx.get(f"{url}/metrics", timeout=5.0)
        except httpx.TransportError:
            return
        counters = parse_counters(response.text)
        if response.is_success and counters.started_at is not None:
            self._lives[counters.started_at] = counters

    @property
    def num_lives(self) -> int:
        return len(self._lives)

    @property
    def prompt_tokens(self) -> int:
        return sum(life.prompt_tokens for life in self._lives.values())

    @property
    def generation_tokens(self) -> int:
        return sum(life.generation_tokens for life in self._lives.values())


@dataclass(frozen=True, slots=True)
class Takeup:
    """How long a dead worker's job lay until it was queued again, and until another worker had it; and what else
    was not up when its lease ran out."""

    queue: str
    queued_seconds: float
    claimed_seconds: float
    down: tuple[str, ...]


class Accidents:
    """A thread that kills something every few seconds, and notes how long its jobs lay untouched."""

    def __init__(
        self,
        stack: EmbeddedStack,
        second: SecondWorkers,
        database: Database,
        totals: EngineTotals,
        *,
        mean_seconds: float,
        seed: int,
    ) -> None:
        self._stack = stack
        self._second = second
        self._database = database
        self._totals = totals
        self._mean_seconds = mean_seconds
        self._chance = random.Random(seed)
        self._stop = threading.Event()
        self._engine_killed_at = time.monotonic()
        self._watchers: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._run, name="accidents")
        self.kills: Counter[str] = Counter()
        self.takeups: list[Takeup] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        for watcher in self._watchers:
            watcher.join()

    def _run(self) -> None:
        kinds: Mapping[str, tuple[float, Callable[[], bool]]] = {
            "api": (2.0, lambda: self._kill("api")),
            "interactive": (2.0, lambda: self._kill_worker("interactive")),
            "interactive-2": (2.0, lambda: self._kill_worker("interactive-2")),
            "ingest": (1.5, lambda: self._kill_worker("ingest")),
            "ingest-2": (1.5, lambda: self._kill_worker("ingest-2")),
            "relay and scheduler": (2.0, lambda: self._kill("relay")),
            "valkey": (2.0, lambda: self._kill("valkey")),
            "database connections": (2.0, self._cut_connections),
            "engine": (3.0, self._kill_engine),
        }
        names = list(kinds)
        weights = [weight for weight, _ in kinds.values()]
        while not self._stop.wait(self._mean_seconds * self._chance.uniform(0.4, 1.6)):
            (name,) = self._chance.choices(names, weights)
            if kinds[name][1]():
                self.kills[name] += 1

    def _kill(self, component: str) -> bool:
        if self._stack.state(component) != "ready":
            return False
        self._stack.kill(component)
        return True

    def _kill_engine(self) -> bool:
        if time.monotonic() - self._engine_killed_at < ENGINE_EVERY_SECONDS:
            return False
        self._totals.look(self._stack.settings.engine_url)
        killed = self._kill("engine")
        if killed:
            self._engine_killed_at = time.monotonic()
        return killed

    def _kill_worker(self, name: str) -> bool:
        processes = self._second.supervisor if name.endswith("-2") else self._stack
        pid = processes.pid(name)
        if processes.state(name) != "ready" or pid is None:
            return False
        processes.kill(name)
        killed_at = time.monotonic()
        for held in self._held_by(pid):
            watcher = threading.Thread(target=self._watch, args=(*held, killed_at))
            watcher.start()
            self._watchers.append(watcher)
        return True

    def _held_by(self, pid: int) -> list[tuple[str, int, str]]:
        held = select(Job.id, Job.attempt, Job.queue).where(
            Job.status == "running", Job.lease_owner.like(f"%:{pid}:%"), Job.cancel_requested_at.is_(None)
        )
        with self._database.read() as session:
            return [(row.id, row.attempt, row.queue) for row in session.execute(held)]

    def _watch(self, job_id: str, attempt: int, queue: str, killed_at: float) -> None:
        """Until another worker has claimed the job, or it has ended."""
        look = select(Job.attempt, Job.status).where(Job.id == job_id)
        queued: float | None = None
        down: tuple[str, ...] | None = None
        while (seconds := time.monotonic() - killed_at) < _TAKEUP_TIMEOUT_SECONDS:
            time.sleep(_LOOK_SECONDS)
            if down is None and seconds > self._stack.settings.worker.lease_seconds:
                down = self._not_ready()
            try:
                with self._database.read() as session:
                    now = session.execute(look).one()
            except Exception as error:  # our own connection may be among those that are cut
                log.info("chaos.look_failed", error=str(error))
                continue
            if queued is None and (now.status != "running" or now.attempt > attempt):
                queued = seconds
            if now.attempt > attempt or now.status not in ("queued", "running"):
                break
        self.takeups.append(Takeup(queue, seconds if queued is None else queued, seconds, down or ()))

    def _not_ready(self) -> tuple[str, ...]:
        parts = {name: self._stack.state(name) for name in _PARTS}
        parts |= {name: self._second.supervisor.state(name) for name in _SECOND}
        return tuple(name for name, state in parts.items() if state != "ready")

    def _cut_connections(self) -> bool:
        """Every connection to PostgreSQL but the one that cuts."""
        engine = create_engine(self._stack.settings.resolved_database_url)
        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()"
        with engine.connect() as connection:
            connection.execute(text(cut))
        engine.dispose()
        return True
