"""`EmbeddedStack`: the embedded shape as `longleaf up` runs it, also for tests, demo and benchmarks."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from core.errors import Conflict
from core.settings import Settings
from embedded.children import Component, ProcessOwner, run_once
from embedded.components import (
    EngineComponent,
    api_spec,
    child,
    models_spec,
    relay_spec,
    valkey_spec,
    worker_spec,
)
from embedded.credentials import Credentials
from embedded.home import make_home, only_one, prepare_database, require_free_port
from embedded.models import unprepared_models
from embedded.processes import ComponentEvent, EventKind, OnEvent, State, Supervisor

WORKER_QUEUES = ("ingest", "interactive")
LIGHT_WORKER = "delivery"
"""The worker that loads no model: a receiver of webhooks that hangs keeps nobody else waiting."""


class EmbeddedStack:
    """Valkey, engine, relay, workers and API, each a child process with a log in the data folder.

        with EmbeddedStack(settings) as stack:
            client = LongleafClient(stack.url, stack.key)

    Components are `valkey` (unless `redis_url` is set), `engine` (unless `engine.url` is set or
    `with_engine` is False), `relay`, `delivery`, `ingest`, `interactive` and `api`.

    Args:
        settings: what every child sees; the environment's LONGLEAF_ variables are overridden by it.
        with_engine: False: answer by extraction only.
        developer_endpoints: let the engine serve `/reset_prefix_cache`, for benchmarks.
        on_event: hears what happens; called from any thread, one call at a time.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        with_engine: bool = True,
        developer_endpoints: bool = False,
        on_event: OnEvent = lambda event: None,
    ) -> None:
        self.settings = settings
        self._launches_engine = with_engine and not settings.engine.url
        self._developer_endpoints = developer_endpoints
        self._on_event = on_event
        self._held = ExitStack()
        self._owner: ProcessOwner | None = None
        self._engine: EngineComponent | None = None
        self._supervisor = Supervisor(on_event=on_event)
        self._credentials: Credentials | None = None
        self.key_is_new = False

    @property
    def url(self) -> str:
        return self.settings.api_url

    @property
    def key(self) -> str:
        """A key of the default tenant with every scope."""
        return self._require_credentials().key

    @property
    def tenant_id(self) -> str:
        return self._require_credentials().tenant_id

    def start(self) -> None:
        """Prepare the data folder and start every component; returns before they are ready.

        May be called once. After an error, call `stop`.

        Raises:
            Conflict: another stack runs on the data folder.
            Misconfigured: a port is taken, or a setting is wrong.
            ModelUnavailable: a model cannot be prepared.
        """
        if self._owner is not None:
            raise Conflict("This stack was started before.", remedy="Make a new one.")
        settings = self.settings
        make_home(settings)
        self._held.enter_context(only_one(settings.root))
        require_free_port(settings.api_host, settings.api_port, variable="LONGLEAF_API_PORT")
        self._owner = ProcessOwner()
        self._prepare_models(self._owner)
        self._prepare_database()
        if not settings.redis_url:
            self._supervisor.start(child(valkey_spec(settings), self._owner))
            self._supervisor.wait_ready(["valkey"])
        for component in self._rest(self._owner):
            is_worker = component.name in WORKER_QUEUES
            self._supervisor.start(component, group="workers" if is_worker else "")

    def _rest(self, owner: ProcessOwner) -> list[Component]:
        """In the order of their start; they stop in the opposite one."""
        settings = self.settings
        components: list[Component] = []
        if self._launches_engine:
            self._engine = EngineComponent(settings, developer_endpoints=self._developer_endpoints)
            components.append(self._engine)
        queues = (LIGHT_WORKER, *WORKER_QUEUES)
        specs = [relay_spec(settings), *(worker_spec(queue, settings) for queue in queues)]
        components.extend(child(spec, owner) for spec in (*specs, api_spec(settings)))
        return components

    def wait_ready(self, *names: str) -> None:
        """Return once the components named (none: all) are ready.

        Raises:
            LongleafError: one of them died, or took longer than it may; quotes its log.
        """
        self._supervisor.wait_ready(names)

    def state(self, component: str) -> State:
        return self._supervisor.state(component)

    def pid(self, component: str) -> int | None:
        """Of the process that does the component's work."""
        return self._supervisor.pid(component)

    def kill(self, component: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to a component's main process, as an accident would; it is then restarted."""
        self._supervisor.kill(component, number)

    def stop(self) -> None:
        """Stop API, workers, relay, engine and Valkey, in this order. May be called again."""
        self._supervisor.stop()
        if self._owner is not None:
            self._owner.close()
        self._held.close()

    def abandon(self) -> None:
        """End every process by force, at once; for a process that is about to exit.

        Takes no lock, so that a signal handler may call it.
        """
        if self._engine is not None:
            self._engine.kill_group()
        if self._owner is not None:
            self._owner.abandon()

    def __enter__(self) -> Self:
        try:
            self.start()
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _prepare_models(self, owner: ProcessOwner) -> None:
        if not unprepared_models(self.settings):
            return
        started_at = time.monotonic()
        self._tell("models", "starting")
        run_once(owner, models_spec(self.settings), on_line=self._tell_model_step)
        self._tell("models", "ready", seconds=time.monotonic() - started_at)

    def _tell_model_step(self, line: str) -> None:
        if not line.startswith(("[", " ")):  # what libraries log stays in the log
            self._tell("models", "progress", line)

    def _prepare_database(self) -> None:
        started_at = time.monotonic()
        self._tell("database", "starting")
        self._credentials, self.key_is_new = prepare_database(self.settings)
        self._tell("database", "ready", seconds=time.monotonic() - started_at)

    def _tell(self, component: str, kind: EventKind, detail: str = "", *, seconds: float = 0.0) -> None:
        self._on_event(ComponentEvent(component, kind, detail, seconds))

    def _require_credentials(self) -> Credentials:
        if self._credentials is None:
            raise Conflict("The stack has no key before it was started.", remedy="Call start() first.")
        return self._credentials
