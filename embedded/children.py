"""Child processes: each in a group of its own, its output in a log, gone when its parent is."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from core.errors import LongleafError

_EXEC = Path(__file__).with_name("guarded_exec.py")
_REAPER = Path(__file__).with_name("reaper.py")
_MAX_LOG_BYTES = 16 * 1024 * 1024
_POLL_SECONDS = 0.02


class Component(Protocol):
    """Something that runs in processes of its own and can be started again after it ended."""

    @property
    def name(self) -> str: ...

    @property
    def log_path(self) -> Path: ...

    @property
    def start_timeout_seconds(self) -> float:
        """How long it may take from start to ready."""
        ...

    def start(self) -> None:
        """Start it and return at once."""
        ...

    def exit_status(self) -> int | None:
        """None while it runs; negative: ended by that signal."""
        ...

    def is_ready(self) -> bool:
        """Whether it can do its work. Quick, and asked often."""
        ...

    def progress(self) -> str:
        """How far its start has come, in words; empty where there is nothing to say."""
        ...

    def recent_log(self) -> str:
        """What its log says since this start."""
        ...

    def pid(self) -> int | None:
        """Of the process that does the work."""
        ...

    def stop(self) -> None:
        """End it in order, by force after a while; returns when nothing of it is left."""
        ...

    def destroy(self) -> None:
        """End it by force, at once, with all its children."""
        ...


class ProcessOwner:
    """Starts processes and answers for their end, even when this one is killed by SIGKILL.

    Two nets: the kernel kills a child whose parent *thread* ends, so one thread starts them all and
    lives until `close`; and a small process of its own kills their whole groups once the pipe to
    this one breaks.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="children")
        self._reaper = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_REAPER)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def spawn(
        self, argv: tuple[str, ...], *, environment: Mapping[str, str], log_path: Path, cwd: Path
    ) -> subprocess.Popen[bytes]:
        """The process, started, in its own group; `environment` is added to the inherited one."""
        return self._thread.submit(self._spawn, argv, environment, log_path, cwd).result()

    def _spawn(
        self, argv: tuple[str, ...], environment: Mapping[str, str], log_path: Path, cwd: Path
    ) -> subprocess.Popen[bytes]:
        with log_path.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_EXEC), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                # Ctrl-C in the terminal is for us, who then stop them in order.
                start_new_session=True,
            )
        self._tell_reaper(f"+{process.pid}")
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(json.dumps({"argv": argv, "environment": dict(environment)}).encode())
        return process

    def forget(self, process: subprocess.Popen[bytes]) -> None:
        """Its group is known to be empty."""
        self._tell_reaper(f"-{process.pid}")

    def close(self) -> None:
        """Let go; whatever still runs is killed. May be called again."""
        self.abandon()
        self._reaper.wait()
        self._thread.shutdown()

    def abandon(self) -> None:
        """Have whatever still runs killed, without waiting for it."""
        assert self._reaper.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._reaper.stdin.close()

    def _tell_reaper(self, line: str) -> None:
        assert self._reaper.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._reaper.stdin.write(f"{line}\n".encode())
            self._reaper.stdin.flush()


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """A command to run. `is_ready` gets what the log has said since this start."""

    name: str
    argv: tuple[str, ...]
    log_path: Path
    is_ready: Callable[[str], bool]
    cwd: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    start_timeout_seconds: float = 60.0
    stop_timeout_seconds: float = 15.0
    before_start: Callable[[], None] = lambda: None


class ChildProcess:
    """A `Component` of one command."""

    def __init__(self, spec: ProcessSpec, owner: ProcessOwner) -> None:
        self._spec = spec
        self._owner = owner
        self._process: subprocess.Popen[bytes] | None = None
        self._log_offset = 0

    @property
    def name(self) -> str:
        return self._spec.name

    @property
    def log_path(self) -> Path:
        return self._spec.log_path

    @property
    def start_timeout_seconds(self) -> float:
        return self._spec.start_timeout_seconds

    def start(self) -> None:
        """Raises what `before_start` raises."""
        self.destroy()  # children of a leader that died may still hold its port or its files
        self._spec.before_start()
        self._log_offset = _open_log(self._spec.log_path)
        self._process = self._owner.spawn(
            self._spec.argv,
            environment=self._spec.environment,
            log_path=self._spec.log_path,
            cwd=self._spec.cwd,
        )

    def exit_status(self) -> int | None:
        return self._process.poll() if self._process else None

    def is_ready(self) -> bool:
        return self._spec.is_ready(self.recent_log())

    def progress(self) -> str:
        return ""

    def recent_log(self) -> str:
        return read_log(self._spec.log_path, self._log_offset)

    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def stop(self) -> None:
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(self._spec.stop_timeout_seconds)
        self.destroy()

    def destroy(self) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        end_group(process.pid)
        process.wait()
        self._owner.forget(process)


def says_ready(log: str) -> bool:
    """Whether a log has a line with the word `ready`."""
    return re.search(r"(?<!not )\bready\b", log) is not None


def read_log(path: Path, offset: int) -> str:
    """What a log says from byte `offset` on."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def last_lines(log: str, *, num_lines: int = 12) -> str:
    """The end of a log, blank lines left out."""
    lines = [line for line in log.splitlines() if line.strip()]
    return "\n".join(lines[-num_lines:])


def end_group(group: int) -> None:
    """Kill a process group; nothing happens where it is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def run_once(
    owner: ProcessOwner,
    spec: ProcessSpec,
    *,
    on_line: Callable[[str], None],
) -> None:
    """Run a command to its end, telling its output line by line.

    Raises:
        LongleafError: it failed; quotes its output.
    """
    offset = told = _open_log(spec.log_path)
    process = owner.spawn(spec.argv, environment=spec.environment, log_path=spec.log_path, cwd=spec.cwd)
    try:
        while True:
            status = process.poll()
            text = read_log(spec.log_path, told)
            complete = text[: text.rfind("\n") + 1]
            told += len(complete.encode())
            for line in complete.splitlines():
                on_line(line)
            if status is not None:
                break
            time.sleep(_POLL_SECONDS)
    finally:
        end_group(process.pid)
        process.wait()
        owner.forget(process)
    if status != 0:
        raise LongleafError(
            f"{spec.name} ended with status {status}:\n{last_lines(read_log(spec.log_path, offset))}\n",
            remedy=f"The whole log is in {spec.log_path}.",
        )


def _open_log(path: Path) -> int:
    """Where the next line will stand; a log that has grown large is put aside as `.1`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > _MAX_LOG_BYTES:
        path.replace(path.with_name(f"{path.name}.1"))
    return path.stat().st_size if path.exists() else 0
