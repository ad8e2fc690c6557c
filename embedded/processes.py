"""Supervision: starts components in order, waits for them, restarts what dies, stops in reverse.

starting ──▶ ready ──died──▶ waiting ──pause over──▶ restarting ──▶ ready
   │                            ▲                        │
   └─died─▶ failed              └──────────died──────────┘

A component that dies before it was ever ready has a fault that a restart would not mend, so its
death is reported instead. Later deaths are outlived, after a pause that doubles while they repeat.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from core.errors import LongleafError, NotFound
from embedded.children import Component, last_lines

State = Literal["starting", "ready", "failed", "waiting", "restarting", "stopped"]
EventKind = Literal["starting", "progress", "ready", "died", "restarting", "failed", "stopping", "stopped"]

_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class ComponentEvent:
    """What happened to a component; `seconds` since its start, where that is of interest."""

    component: str
    kind: EventKind
    detail: str = ""
    seconds: float = 0.0


OnEvent = Callable[[ComponentEvent], None]


@dataclass(frozen=True, slots=True)
class RestartPauses:
    """The pause doubles with each death until the component has stayed up for a while."""

    first_seconds: float = 0.5
    max_seconds: float = 30.0
    steady_after_seconds: float = 60.0

    def pause_seconds(self, num_deaths: int) -> float:
        """After death number `num_deaths` in a row, counted from 1."""
        return float(min(self.max_seconds, self.first_seconds * 2.0 ** (min(num_deaths, 30) - 1)))


@dataclass(slots=True)
class _Supervised:
    component: Component
    state: State
    started_at: float
    group: str = ""
    ready_at: float = 0.0
    restart_at: float = 0.0
    num_deaths: int = 0
    failure: LongleafError | None = None
    progress: str = ""


class Supervisor:
    """Keeps components running, in a thread of its own.

    Args:
        on_event: hears of everything that happens; called from any thread, one call at a time.
        pauses: before restarts.
    """

    def __init__(
        self, *, on_event: OnEvent = lambda event: None, pauses: RestartPauses | None = None
    ) -> None:
        self._on_event = on_event
        self._pauses = pauses or RestartPauses()
        self._supervised: dict[str, _Supervised] = {}
        self._changed = threading.Condition(threading.RLock())
        self._stopping = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="supervisor", daemon=True)

    def start(self, component: Component, *, group: str = "") -> None:
        """Start it; returns before it is ready. Neighbours of one `group` are stopped together."""
        with self._changed:
            self._tell(component, "starting")
            component.start()
            self._supervised[component.name] = _Supervised(
                component, "starting", time.monotonic(), group=group or component.name
            )
            if not self._watcher.is_alive():
                self._watcher.start()

    def wait_ready(self, names: Sequence[str] = ()) -> None:
        """Return once the components named (none: all) are ready.

        Raises:
            LongleafError: one died, or took longer than it may; quotes the end of its log.
        """
        with self._changed:
            while True:
                waited_for = [self._get(name) for name in names] or list(self._supervised.values())
                for each in waited_for:
                    if each.failure is not None:
                        raise each.failure
                    if each.state == "starting" and self._age(each) > each.component.start_timeout_seconds:
                        raise _too_slow(each.component)
                if all(each.state == "ready" for each in waited_for):
                    return
                self._changed.wait(_POLL_SECONDS)

    def state(self, name: str) -> State:
        with self._changed:
            return self._get(name).state

    def pid(self, name: str) -> int | None:
        """Of the process that does the component's work."""
        with self._changed:
            return self._get(name).component.pid()

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to the component's main process, as an accident would."""
        pid = self.pid(name)
        if pid is not None:
            os.kill(pid, number)

    def stop(self) -> None:
        """Stop all, the last started first; nothing is left when this returns."""
        self._stopping.set()
        if self._watcher.is_alive():
            self._watcher.join()  # it may be starting something just now
        order = [each for each in reversed(self._supervised.values()) if each.state != "stopped"]
        for _, neighbours in groupby(order, key=lambda each: each.group):
            members = list(neighbours)
            with ThreadPoolExecutor(max_workers=len(members)) as threads:
                # list: so that what one of them raises is raised here
                list(threads.map(self._stop_one, members))

    def _stop_one(self, each: _Supervised) -> None:
        self._tell(each.component, "stopping")
        started_at = time.monotonic()
        each.component.stop()
        each.state = "stopped"
        self._tell(each.component, "stopped", seconds=time.monotonic() - started_at)

    def _watch(self) -> None:
        while not self._stopping.wait(_POLL_SECONDS):
            for each in list(self._supervised.values()):
                with self._changed:
                    if not self._stopping.is_set():
                        self._look_at(each)
                    self._changed.notify_all()

    def _look_at(self, each: _Supervised) -> None:
        if each.state in ("failed", "stopped"):
            return
        if each.state == "waiting":
            if time.monotonic() >= each.restart_at:
                self._restart(each)
        elif (status := each.component.exit_status()) is not None:
            self._note_death(each, status)
        elif each.state != "ready":
            self._look_whether_ready(each)

    def _look_whether_ready(self, each: _Supervised) -> None:
        if each.component.is_ready():
            each.state, each.ready_at = "ready", time.monotonic()
            self._tell(each.component, "ready", seconds=self._age(each))
            return
        progress = each.component.progress()
        if progress and progress != each.progress:
            each.progress = progress
            self._tell(each.component, "progress", progress, seconds=self._age(each))
        if each.state == "restarting" and self._age(each) > each.component.start_timeout_seconds:
            each.component.destroy()
            self._schedule_restart(each, "was not ready in time")

    def _note_death(self, each: _Supervised, status: int) -> None:
        if each.state == "starting":
            each.state, each.failure = "failed", _died(each.component, status)
            self._tell(each.component, "failed", describe_status(status))
            return
        if each.state == "ready" and time.monotonic() - each.ready_at > self._pauses.steady_after_seconds:
            each.num_deaths = 0
        self._schedule_restart(each, describe_status(status))

    def _schedule_restart(self, each: _Supervised, what: str) -> None:
        each.num_deaths += 1
        pause = self._pauses.pause_seconds(each.num_deaths)
        each.state, each.restart_at = "waiting", time.monotonic() + pause
        self._tell(each.component, "died", f"{what}; starting it again in {pause:g} s")

    def _restart(self, each: _Supervised) -> None:
        each.started_at, each.progress = time.monotonic(), ""
        try:
            each.component.start()
        except (LongleafError, OSError) as error:
            self._schedule_restart(each, f"cannot be started: {error}")
            return
        each.state = "restarting"
        self._tell(each.component, "restarting")

    def _get(self, name: str) -> _Supervised:
        try:
            return self._supervised[name]
        except KeyError:
            known = ", ".join(self._supervised)
            raise NotFound(f"There is no component {name!r}.", remedy=f"There are: {known}.") from None

    def _age(self, each: _Supervised) -> float:
        return time.monotonic() - each.started_at

    def _tell(self, component: Component, kind: EventKind, detail: str = "", *, seconds: float = 0.0) -> None:
        with self._changed:
            self._on_event(ComponentEvent(component.name, kind, detail, seconds))


def describe_status(status: int) -> str:
    """An exit status in words; 128 + n is a signal as shells and the engine's guard report it."""
    number = -status if status < 0 else status - 128
    if number > 0:
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(number).name}"
    return f"ended with status {status}"


def _died(component: Component, status: int) -> LongleafError:
    return LongleafError(
        f"{component.name} {describe_status(status)} before it was ready. "
        f"The end of its log:\n{last_lines(component.recent_log())}\n",
        remedy=f"The whole log is in {component.log_path}.",
        component=component.name,
    )


def _too_slow(component: Component) -> LongleafError:
    return LongleafError(
        f"{component.name} was not ready within {component.start_timeout_seconds:g} s. "
        f"The end of its log:\n{last_lines(component.recent_log())}\n",
        remedy=f"The whole log is in {component.log_path}.",
        component=component.name,
    )
