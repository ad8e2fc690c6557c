"""Runs one engine as its child and leaves nothing of it behind, whatever happens.

Started by `EngineProcess` as a script of its own, from the standard library alone. It reads one line
of JSON from standard input, `{"argv": [...], "environment": {name: value or null}, "grace_seconds": n}`,
and starts the command in a process group of its own. vLLM starts children (an engine core and
workers) that can outlive it when it is killed; so the guard ends the whole group when

- its parent closes the pipe or dies, even by SIGKILL: standard input ends;
- it is asked to, by SIGTERM or SIGINT;
- the engine itself ends.

It exits with the engine's status, 128 + n for a signal.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main() -> int:
    order = json.loads(sys.stdin.readline())
    _apply(order["environment"])
    wake = _wake_on_signals()
    # Orphans of the engine become children of the guard, which can then wait for their end.
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    engine = subprocess.Popen(
        order["argv"],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        # Should the guard be killed, the engine's main process still gets a SIGTERM.
        preexec_fn=_die_with_parent,
    )
    _wait_for_end(engine, wake)
    _end_group(engine, order["grace_seconds"])
    status = engine.wait()
    return 128 - status if status < 0 else status


def _apply(environment: dict[str, str | None]) -> None:
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _wake_on_signals() -> int:
    """A file descriptor that becomes readable on SIGTERM, SIGINT, and the end of a child."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    return reader


def _wait_for_end(engine: subprocess.Popen[bytes], wake: int) -> None:
    while engine.poll() is None:
        ready, _, _ = select.select([sys.stdin, wake], [], [])
        if sys.stdin in ready:
            return  # nothing follows the order, so this is the end of the pipe
        received = os.read(wake, 512)
        if signal.SIGTERM in received or signal.SIGINT in received:
            return


def _end_group(engine: subprocess.Popen[bytes], grace_seconds: float) -> None:
    _signal_group(engine.pid, signal.SIGTERM)
    deadline = time.monotonic() + grace_seconds
    while _has_members(engine) and time.monotonic() < deadline:
        time.sleep(0.05)
    _signal_group(engine.pid, signal.SIGKILL)
    while _has_members(engine):
        time.sleep(0.01)


def _has_members(engine: subprocess.Popen[bytes]) -> bool:
    """Whether any process of the engine's group is alive, once the dead are reaped."""
    engine.poll()
    with contextlib.suppress(ChildProcessError):
        while engine.returncode is not None and os.waitpid(-1, os.WNOHANG)[0]:
            pass
    try:
        os.killpg(engine.pid, 0)
    except ProcessLookupError:
        return False
    return True


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _die_with_parent() -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main())
