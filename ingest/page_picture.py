"""Pictures of PDF pages, drawn in a process of their own: files come from strangers (see `isolation`)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from core.errors import UnreadableDocument
from ingest.picture_process import UNREADABLE_STATUS

MIN_WIDTH, MAX_WIDTH = 100, 2400
TIMEOUT_SECONDS = 20.0
RENDERER_REVISION = "1"
"""Changes whenever the same order would give another picture."""

_PNG = b"\x89PNG\r\n\x1a\n"
_MAX_PICTURE_BYTES = 64 * 1024 * 1024
_ROOT = Path(__file__).resolve().parent.parent

Mark = tuple[float, float, float, float]


def draw_page(
    path: Path,
    name: str,
    number: int,
    *,
    width: int,
    memory_bytes: int,
    marks: Sequence[Mark] = (),
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> bytes:
    """PNG of page `number` (from 1) of the PDF at `path`, `width` pixels wide.

    A page more than four times as long as wide is drawn narrower.

    Args:
        name: what people call the file.
        marks: rectangles `(x0, y0, x1, y1)` to colour, in points from the page's top left.
        memory_bytes: address space of the drawing process.

    Raises:
        UnreadableDocument: the page cannot be drawn, or took too much time or memory.
    """
    order = {
        "path": str(path.resolve()),
        "number": number,
        "width": width,
        "marks": [list(mark) for mark in marks],
        "memory_bytes": memory_bytes,
        "cpu_seconds": int(timeout_seconds) + 1,
    }
    try:
        done = subprocess.run(
            [sys.executable, "-m", "ingest.picture_process"],
            input=json.dumps(order).encode("ascii"),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PYTHONPATH": str(_ROOT), "PYTHONUTF8": "1"},  # none of our secrets
            cwd=_ROOT,
            timeout=timeout_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _undrawable(name, number, f"took longer than {timeout_seconds:g} seconds") from error
    if done.returncode == 0 and done.stdout.startswith(_PNG) and len(done.stdout) <= _MAX_PICTURE_BYTES:
        return done.stdout
    raise _undrawable(name, number, _reason(done.returncode))


def _reason(status: int) -> str:
    if status == UNREADABLE_STATUS:
        return "failed, because the file is damaged there"
    if status < 0:
        return f"ended with {signal.Signals(-status).name}"
    return "failed" if status else "gave no picture"


def _undrawable(name: str, number: int, what: str) -> UnreadableDocument:
    return UnreadableDocument(
        f"Drawing page {number} of {name!r} {what}.",
        remedy="Read the page's text at /v1/documents/{id}/pages/{number}, or open the file itself.",
        page=number,
    )
