"""Starts a vLLM, waits until it answers, and stops it without leaving a process behind."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from core.errors import EngineUnavailable, Misconfigured
from inference.engine_log import LogFollower, read_tail, rotate_log
from inference.engine_profiles import EngineCommand

_GUARD = Path(__file__).with_name("engine_guard.py")
_POLL_SECONDS = 0.25


class EngineProcess:
    """One engine: a guard process (see `engine_guard`) with vLLM and its children below it.

    May be started again after it stopped or died. It dies with the process that started it.

    Args:
        command: from `engine_profiles.engine_command`.
        host, port: where the command listens.
        log_path: its output; earlier logs are kept beside it as `.1` and `.2`.
        grace_seconds: from SIGTERM to SIGKILL.
    """

    def __init__(
        self, command: EngineCommand, *, host: str, port: int, log_path: Path, grace_seconds: float = 10.0
    ) -> None:
        self.url = f"http://{host}:{port}"
        self.log_path = log_path
        self._command = command
        self._address = (host, port)
        self._grace_seconds = grace_seconds
        self._guard: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        """The guard's process id; None before the first start."""
        return self._guard.pid if self._guard else None

    @property
    def exit_status(self) -> int | None:
        """Of an engine that ended (128 + n: by signal n); None while it runs."""
        return self._guard.poll() if self._guard else None

    def is_alive(self) -> bool:
        """Whether the process runs; whether it answers is another question."""
        return self._guard is not None and self._guard.poll() is None

    def start(self) -> None:
        """Start the process and return at once; nothing happens if it already runs.

        Raises:
            Misconfigured: something else listens on the port.
        """
        with self._lock:
            if self.is_alive():
                return
            require_free_port(*self._address)
            rotate_log(self.log_path)
            order = {
                "argv": self._command.argv,
                "environment": self._command.environment,
                "grace_seconds": self._grace_seconds,
            }
            with self.log_path.open("wb") as log:
                self._guard = subprocess.Popen(
                    [sys.executable, "-P", str(_GUARD)],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    # Ctrl-C in the terminal is for the parent, which then stops the engine in order.
                    start_new_session=True,
                )
            assert self._guard.stdin is not None
            self._guard.stdin.write(json.dumps(order).encode() + b"\n")
            self._guard.stdin.flush()

    def wait_ready(
        self, *, timeout_seconds: float, on_progress: Callable[[str], None] = lambda message: None
    ) -> float:
        """Seconds until `/health` answered; `on_progress` hears in words how far it has come.

        Raises:
            EngineUnavailable: it ended, or did not answer in time. It is not stopped then.
        """
        started_at = time.monotonic()
        follower = LogFollower(self.log_path)
        with httpx.Client(trust_env=False, timeout=2.0) as http:
            while True:
                for message in follower.milestones():
                    on_progress(message)
                if not self.is_alive():
                    raise self.died()
                if _answers(http, f"{self.url}/health"):
                    return time.monotonic() - started_at
                if time.monotonic() - started_at > timeout_seconds:
                    raise self._too_slow(timeout_seconds)
                time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """End the engine and all its children; returns when none is left."""
        with self._lock:
            if self._guard is None:
                return
            assert self._guard.stdin is not None
            with contextlib.suppress(OSError):
                self._guard.stdin.close()  # the guard takes the end of the pipe as its order
            self._guard.wait()

    def died(self) -> EngineUnavailable:
        """The error for an engine that ended by itself: its status and the end of its log."""
        return EngineUnavailable(
            f"The generation engine ended with status {self.exit_status}. "
            f"The end of {self.log_path}:\n{read_tail(self.log_path)}\n",
            remedy=f"The whole log is in {self.log_path}.",
            log_path=str(self.log_path),
        )

    def _too_slow(self, timeout_seconds: float) -> EngineUnavailable:
        return EngineUnavailable(
            f"The generation engine did not answer within {timeout_seconds:g} s. "
            f"The end of {self.log_path}:\n{read_tail(self.log_path)}\n",
            remedy="Raise LONGLEAF_ENGINE__START_TIMEOUT_SECONDS, or see the whole log.",
            log_path=str(self.log_path),
        )


def require_free_port(host: str, port: int) -> None:
    """Nothing if the port can be listened on.

    Raises:
        Misconfigured: it cannot; the message says whether an engine is what listens there.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As vLLM does, so that connections of an engine just stopped do not count as in use.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise _port_error(host, port, error) from error


def _port_error(host: str, port: int, error: OSError) -> Misconfigured:
    with httpx.Client(trust_env=False, timeout=1.0) as http:
        is_engine = _answers(http, f"http://{host}:{port}/v1/models")
    use_it = f", or set LONGLEAF_ENGINE__URL=http://{host}:{port} to use that one" if is_engine else ""
    what = "an OpenAI-compatible server already listens there" if is_engine else error.strerror
    return Misconfigured(
        f"The generation engine cannot listen on {host}:{port}: {what}.",
        remedy=f"Stop what uses the port, set LONGLEAF_ENGINE__PORT to another{use_it}.",
        port=port,
    )


def _answers(http: httpx.Client, url: str) -> bool:
    try:
        return http.get(url).status_code == 200
    except httpx.HTTPError:
        return False
