"""The process that reads one file for `ingest/isolation.py` and may die of it.

Run as `python -m ingest.parser_process PATH NAME MEMORY_BYTES CPU_SECONDS`; writes frames to
standard output. Imports little, so that it starts in a tenth of a second.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from pathlib import Path

from core.errors import LongleafError, UnreadableDocument
from ingest.frames import END, ERROR, INFO, PAGE, pack_error, pack_info, pack_page, send_frame
from ingest.parsers import parse


def _limit(memory_bytes: int, cpu_seconds: int) -> None:
    """Bound this process. CPU time outlives a parent that was killed and cannot kill us."""
    for what, limit in ((resource.RLIMIT_AS, memory_bytes), (resource.RLIMIT_CPU, cpu_seconds)):
        with contextlib.suppress(ValueError, OSError):  # macOS refuses RLIMIT_AS
            resource.setrlimit(what, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _describe(error: Exception, name: str) -> LongleafError:
    """Any failure as an error about the file: the child is an edge."""
    if isinstance(error, LongleafError):
        return error
    if isinstance(error, MemoryError):
        return UnreadableDocument(
            f"Reading {name!r} needs more memory than is allowed.",
            remedy="Split it, or raise LONGLEAF_CHUNK__PARSE_MEMORY_BYTES.",
        )
    return UnreadableDocument(
        f"{name!r} cannot be read: its parser failed with {type(error).__name__}.",
        remedy="The file may be damaged; upload another version of it.",
    )


def main(path: str, name: str, memory_bytes: str, cpu_seconds: str) -> None:
    """Parse one file and write its frames to standard output."""
    _limit(int(memory_bytes), int(cpu_seconds))
    output = sys.stdout.buffer
    try:
        info, pages = parse(Path(path), name)
        send_frame(output, INFO, pack_info(info))
        for page in pages:
            send_frame(output, PAGE, pack_page(page))
        send_frame(output, END, None)
    except BrokenPipeError:
        os._exit(1)  # the reader left
    except Exception as error:
        send_frame(output, ERROR, pack_error(_describe(error, name)))


if __name__ == "__main__":
    main(*sys.argv[1:])
