"""The process that reads one file for `ingest/isolation.py` and may die of it.

Run as `python -m ingest.parser_process`; its order comes as one JSON object on standard input, and
frames go to standard output. Imports little, so that it starts in a tenth of a second.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from core.errors import LongleafError, UnreadableDocument
from ingest.frames import END, ERROR, INFO, PAGE, pack_error, pack_info, pack_page, send_frame
from ingest.parsers import parse, preload
from ingest.process_limits import limit_process


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


def main() -> None:
    """Wait for the order, parse its file and write the frames."""
    preload()  # started ahead of its order, it has the time
    received = sys.stdin.buffer.read()
    if not received:
        return  # whoever started us is gone, or needs us no more
    order = json.loads(received)
    limit_process(memory_bytes=order["memory_bytes"], cpu_seconds=order["cpu_seconds"])
    name, output = order["name"], sys.stdout.buffer
    try:
        info, pages = parse(Path(order["path"]), name)
        send_frame(output, INFO, pack_info(info))
        for page in pages:
            send_frame(output, PAGE, pack_page(page))
        send_frame(output, END, None)
    except BrokenPipeError:
        os._exit(1)  # the reader left
    except Exception as error:
        send_frame(output, ERROR, pack_error(_describe(error, name)))


if __name__ == "__main__":
    main()
