"""Parsing in a process of its own, because files come from strangers and parsers are written in C.

The child (`ingest/parser_process.py`) has bounded memory and time, no secrets in its environment,
and streams pages as JSON frames, so that a document of thousands of pages is never whole in memory.
Whatever befalls it is an error about one file.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from core.cancellation import look
from core.errors import UnreadableDocument
from ingest.frames import (
    END,
    ERROR,
    HEADER,
    INFO,
    MAX_FRAME_BYTES,
    PAGE,
    unpack_error,
    unpack_info,
    unpack_page,
)
from ingest.parsed import ParsedPage

_PIPE_BYTES = 1024 * 1024
_LOOK_SECONDS = 0.25
_ROOT = Path(__file__).resolve().parent.parent


def parse_isolated(path: Path, name: str, *, timeout_seconds: float, memory_bytes: int) -> IsolatedDocument:
    """Start reading the file at `path`, uploaded as `name`; use the result in a `with`.

    Args:
        timeout_seconds: how long the child may keep its reader waiting, all waits together.
        memory_bytes: address space of the child.

    Raises:
        EmptyDocument, EncryptedDocument, UnsupportedFormat, TooLarge: as the parser says.
        UnreadableDocument: damaged; or it crashed the parser, or took more time or memory.
    """
    process = _spare.take()
    order = {
        "path": str(path.resolve()),
        "name": name,
        "memory_bytes": memory_bytes,
        "cpu_seconds": int(timeout_seconds) + 10,
    }
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin:  # its death is told by what it says
        process.stdin.write(json.dumps(order).encode("ascii"))
    return IsolatedDocument(process, name, timeout_seconds)


class SpareParser:
    """Keeps one parsing process started ahead, waiting for its order.

    Every file still has a process of its own, so that a file which takes over its parser learns
    nothing of other tenants' files; but nobody waits for its start, a tenth of a second.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: subprocess.Popen[bytes] | None = None

    def take(self) -> subprocess.Popen[bytes]:
        """A process that waits for its order on standard input; the next one is started behind it."""
        with self._lock:
            taken, self._waiting = self._waiting, None
            if taken is None or taken.poll() is not None:
                taken = _start_parser()
            self._waiting = _start_parser()
        return taken

    def close(self) -> None:
        """End the waiting process; it would also end by itself once its standard input closes."""
        with self._lock:
            if self._waiting is not None:
                self._waiting.kill()
                self._waiting.communicate()
                self._waiting = None


_spare = SpareParser()
atexit.register(_spare.close)


def _start_parser() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "ingest.parser_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PYTHONPATH": str(_ROOT), "PYTHONUTF8": "1"},
        cwd=_ROOT,
        pipesize=_PIPE_BYTES,
    )


class IsolatedDocument:
    """A document being read by a child process; iterating gives its pages, once.

    `info` is known at once, `warnings` is complete after the last page. Leaving the `with` early
    kills the child. Iterating raises what `parse_isolated` raises.
    """

    def __init__(self, process: subprocess.Popen[bytes], name: str, timeout_seconds: float) -> None:
        self._process = process
        self._frames = _FrameReader(process, name, timeout_seconds)
        self._name = name
        try:
            kind, content = self._frames.read()
            if kind != INFO:
                raise self._frames.misbehaved()
            self.info = unpack_info(content)
        except BaseException:
            self.close()
            raise
        self._warnings = list(self.info.warnings)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What went wrong so far, for people."""
        return tuple(self._warnings)

    def __iter__(self) -> Iterator[ParsedPage]:
        while True:
            kind, content = self._frames.read()
            if kind == END:
                return
            if kind != PAGE:
                raise self._frames.misbehaved()
            page = unpack_page(content)
            self._warnings += page.warnings
            yield page

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill the child if it still runs."""
        self._process.kill()
        self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()


class _FrameReader:
    """Frames of a child's output, under a deadline that only waiting uses up."""

    def __init__(self, process: subprocess.Popen[bytes], name: str, timeout_seconds: float) -> None:
        assert process.stdout is not None
        self._process = process
        self._descriptor = process.stdout.fileno()
        self._name = name
        self._timeout_seconds = timeout_seconds
        self._waited_seconds = 0.0
        self._buffer = bytearray()
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLIN | select.POLLHUP)

    def read(self) -> tuple[bytes, Any]:
        """The next frame's kind and content; an error frame is raised."""
        kind, num_bytes = HEADER.unpack(self._take(HEADER.size))
        if num_bytes > MAX_FRAME_BYTES:
            raise self.misbehaved()
        try:
            content = json.loads(self._take(num_bytes))
        except ValueError as error:
            raise self.misbehaved() from error
        if kind == ERROR:
            raise unpack_error(content)
        return kind, content

    def misbehaved(self) -> UnreadableDocument:
        return UnreadableDocument(
            f"The parser of {self._name!r} answered nonsense.", remedy="Upload another version of it."
        )

    def _take(self, num_bytes: int) -> bytes:
        while len(self._buffer) < num_bytes:
            self._wait()
            received = os.read(self._descriptor, _PIPE_BYTES)
            if not received:
                raise self._explain_death()
            self._buffer += received
        taken = bytes(self._buffer[:num_bytes])
        del self._buffer[:num_bytes]
        return taken

    def _wait(self) -> None:
        until = time.monotonic() + self._timeout_seconds - self._waited_seconds
        ready = False
        while not ready and (left := until - time.monotonic()) > 0:
            ready = bool(self._poll.poll(min(_LOOK_SECONDS, left) * 1000))
            look()
        self._waited_seconds = self._timeout_seconds - (until - time.monotonic())
        if not ready:
            raise UnreadableDocument(
                f"Reading {self._name!r} took longer than {self._timeout_seconds:g} seconds.",
                remedy="Split it, or raise LONGLEAF_CHUNK__PARSE_TIMEOUT_SECONDS.",
            )

    def _explain_death(self) -> UnreadableDocument:
        code = self._process.wait()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return UnreadableDocument(
            f"Reading {self._name!r} crashed its parser, which {how}.",
            remedy="The file is damaged, or needs more memory than LONGLEAF_CHUNK__PARSE_MEMORY_BYTES.",
        )
