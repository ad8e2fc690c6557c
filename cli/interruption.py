"""Signals that ask to stop: the first one in order, a second Ctrl-C at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_on_signals(abandon: Callable[[], None]) -> Iterator[None]:
    """Within it the first SIGINT, SIGTERM or SIGHUP raises `KeyboardInterrupt` in the main thread.

    A later SIGINT calls `abandon` and ends the process at once. Further SIGTERM and SIGHUP are
    ignored: a closing terminal and a service manager send both to one that is stopping already.
    """
    received = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal received
        if not received:
            received = True
            raise KeyboardInterrupt
        if number == signal.SIGINT:
            abandon()
            os._exit(128 + number)

    before = {number: signal.signal(number, handle) for number in _STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
