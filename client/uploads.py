"""Sending files: batches of a bounded size, read from disk piece by piece."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from client.records import File, Job

MAX_BATCH_FILES = 50
MAX_BATCH_BYTES = 200 * 1024 * 1024

OnBytes = Callable[[Path, int], None]
"""Called with the file and the number of its bytes just handed to the network."""


@dataclass(frozen=True, slots=True)
class UploadedBatch:
    """One request of an upload: `files[i]` is what the server made of `paths[i]`."""

    paths: tuple[Path, ...]
    job: Job
    files: list[File]


def plan_batches(
    paths: Sequence[Path],
    *,
    max_files: int = MAX_BATCH_FILES,
    max_bytes: int = MAX_BATCH_BYTES,
) -> list[tuple[Path, ...]]:
    """`paths` in order, cut so that no batch exceeds either bound, but for a single larger file."""
    batches: list[tuple[Path, ...]] = []
    batch: list[Path] = []
    batch_bytes = 0
    for path in paths:
        size = path.stat().st_size
        if batch and (len(batch) == max_files or batch_bytes + size > max_bytes):
            batches.append(tuple(batch))
            batch, batch_bytes = [], 0
        batch.append(path)
        batch_bytes += size
    if batch:
        batches.append(tuple(batch))
    return batches


class CountingReader:
    """A file open for reading that tells how much of it was read."""

    def __init__(self, file: IO[bytes], on_bytes: Callable[[int], None]) -> None:
        self._file = file
        self._on_bytes = on_bytes

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        if data:
            self._on_bytes(len(data))
        return data

    def fileno(self) -> int:
        return self._file.fileno()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def __iter__(self) -> Iterator[bytes]:
        return iter(lambda: self.read(65536), b"")


def open_parts(
    paths: Sequence[Path], stack: ExitStack, on_bytes: OnBytes | None
) -> list[tuple[str, tuple[str, IO[bytes]]]]:
    """Multipart parts named `files` in the form httpx takes; `stack` closes the files."""
    parts: list[tuple[str, tuple[str, IO[bytes]]]] = []
    for path in paths:
        file: IO[bytes] = stack.enter_context(path.open("rb"))
        if on_bytes is not None:
            report = _reporter(path, on_bytes)
            file = CountingReader(file, report)  # type: ignore[assignment]  # the part httpx uses
        parts.append(("files", (_display_name(path), file)))
    return parts


def _reporter(path: Path, on_bytes: OnBytes) -> Callable[[int], None]:
    return lambda num_bytes: on_bytes(path, num_bytes)


def _display_name(path: Path) -> str:
    """A name that UTF-8 can carry, also where the disk holds one in another encoding.

    Archives packed by Chinese Windows unpack to names in GBK.
    """
    name = os.fsencode(path.name)
    for encoding in ("utf-8", "gb18030"):
        try:
            return name.decode(encoding)
        except UnicodeDecodeError:
            continue
    return name.decode("utf-8", errors="replace")
