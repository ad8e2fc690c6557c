"""Keeps an engine running: starts it again when it dies, and knows when to give up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from core.errors import EngineUnavailable

_POLL_SECONDS = 0.2


class Restartable(Protocol):
    """What the supervisor needs of an `EngineProcess`."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def is_alive(self) -> bool: ...
    def died(self) -> EngineUnavailable: ...


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """A death sooner than `quick_seconds` after the start is quick; so many in a row end it.

    The pause before a restart is twice the last one while deaths are quick.
    """

    quick_seconds: float = 120.0
    max_quick_deaths: int = 3
    first_pause_seconds: float = 1.0
    max_pause_seconds: float = 30.0

    def pause_seconds(self, num_quick_deaths: int) -> float:
        exponent = max(0, num_quick_deaths - 1)
        return min(self.max_pause_seconds, self.first_pause_seconds * 2.0**exponent)


def supervise(
    engine: Restartable,
    *,
    should_stop: threading.Event,
    on_event: Callable[[str], None] = lambda message: None,
    policy: RestartPolicy | None = None,
) -> None:
    """Keep a started engine running until `should_stop` is set, then stop it; meant for a thread.

    Args:
        on_event: hears of each death and restart, in words.

    Raises:
        EngineUnavailable: it died too often too soon; quotes the end of its log.
    """
    policy = policy or RestartPolicy()
    num_quick_deaths = 0
    while not should_stop.is_set():
        lived_seconds = _wait_for_death(engine, should_stop)
        if should_stop.is_set():
            break
        death = engine.died()
        num_quick_deaths = num_quick_deaths + 1 if lived_seconds < policy.quick_seconds else 0
        if num_quick_deaths >= policy.max_quick_deaths:
            raise EngineUnavailable(
                f"The generation engine died {num_quick_deaths} times in a row soon after its start, "
                f"so it is not started again. {death.detail}",
                remedy=death.remedy,
                **death.context,
            )
        pause = policy.pause_seconds(num_quick_deaths)
        on_event(f"the engine died after {lived_seconds:.0f} s; starting it again in {pause:g} s")
        if not should_stop.wait(pause):
            engine.start()
            on_event("the engine was started again")
    engine.stop()


def _wait_for_death(engine: Restartable, should_stop: threading.Event) -> float:
    """Seconds until the engine was found dead, or the event set."""
    started_at = time.monotonic()
    while engine.is_alive() and not should_stop.wait(_POLL_SECONDS):
        pass
    return time.monotonic() - started_at
