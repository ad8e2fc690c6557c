"""A folder of KV blocks with a quota, which any number of engines may share.

    NAMESPACE/ab/abcdef….RANK       a block's values, one file for each tensor-parallel rank
    manifests/NAME                  keys of the blocks kept for one document, a line each

The file system is the index: what was used last is told by modification times, and what another
engine wrote or evicted is seen at the next look.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from inference.kv_store.block_file import HEADER_BYTES, DamagedBlock, read_block, write_block
from inference.kv_store.block_keys import manifest_name

_MANIFESTS = "manifests"
_DRAFT_SECONDS = 3600.0  # older drafts were left by an engine that was killed
_EVICT_TO = 0.9  # of the quota, so that not every block written has others evicted
_RESCAN_SHARE = 0.02  # of the quota: written so much, we look what other engines did


@dataclass(frozen=True, slots=True)
class StoreUsage:
    """What a store holds."""

    num_blocks: int
    num_bytes: int
    num_documents: int


@dataclass(frozen=True, slots=True)
class _Entry:
    path: str
    num_bytes: int
    used_at: int  # nanoseconds


class BlockStore:
    """Blocks of one engine's namespace, in a folder under one quota for all namespaces.

    Args:
        folder: made when the first block is written.
        payload_bytes: of one block on one rank.
        num_ranks: a block counts as there when all ranks' files are.
        max_bytes: quota of the whole folder; the blocks used longest ago go first.
        min_free_bytes: nothing is written where the disk would have less left.
    """

    def __init__(
        self,
        folder: Path,
        namespace: str,
        *,
        payload_bytes: int,
        num_ranks: int = 1,
        max_bytes: int,
        min_free_bytes: int = 0,
    ) -> None:
        self.file_bytes = HEADER_BYTES + payload_bytes
        self._folder = folder
        self._namespace = folder / namespace
        self._num_ranks = num_ranks
        self._max_bytes = max_bytes
        self._min_free_bytes = min_free_bytes
        self._lock = threading.Lock()
        self._known_bytes: int | None = None
        self._bytes_since_scan = 0

    def has(self, key: str) -> bool:
        """Whether the block is there, by names and sizes; `read` is what checks its contents."""
        try:
            return all(
                os.stat(self._path(key, rank)).st_size == self.file_bytes for rank in range(self._num_ranks)
            )
        except OSError:
            return False

    def write(self, key: str, buffer: bytearray, *, rank: int = 0) -> None:
        """Keep the block; evicts others where the quota wants it.

        Raises:
            OSError: the disk is full, nearly full, or not to be written to.
        """
        self._make_room()
        write_block(self._path(key, rank), key, buffer)
        with self._lock:
            self._known_bytes = (self._known_bytes or 0) + len(buffer)
            self._bytes_since_scan += len(buffer)

    def read(self, key: str, buffer: bytearray, *, rank: int = 0) -> memoryview:
        """The block's values, a view into `buffer` of `file_bytes` bytes. A damaged file is removed.

        Raises:
            DamagedBlock: its file was not what it should be.
            OSError: it is gone, or cannot be read.
        """
        path = self._path(key, rank)
        try:
            return read_block(path, key, buffer)
        except DamagedBlock:
            with contextlib.suppress(OSError):
                path.unlink()
            raise

    def touch(self, keys: Sequence[str], *, rank: int = 0) -> None:
        """These blocks, in their order in a prompt, are in use.

        Later ones are of no use without the earlier, so they count as used a little longer ago.
        """
        now = time.time_ns()
        for index, key in enumerate(keys):
            with contextlib.suppress(OSError):
                os.utime(self._path(key, rank), ns=(now, now - index * 1000))

    def record(self, salt: str, label: str, keys: Iterable[str]) -> None:
        """Remember that blocks are kept for `label` of the tenant `salt`, so `purge` finds them.

        Raises:
            OSError: the folder is not to be written to.
        """
        path = self._folder / _MANIFESTS / manifest_name(salt, label)
        known = set(_read_keys(path))
        new = [key for key in keys if key not in known]
        if new:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="ascii") as file:
                file.write("".join(f"{key}\n" for key in new))

    def _path(self, key: str, rank: int) -> Path:
        return self._namespace / key[:2] / f"{key}.{rank}"

    def _make_room(self) -> None:
        with self._lock:
            total = self._known_bytes
            if total is None or self._bytes_since_scan >= self._max_bytes * _RESCAN_SHARE:
                total = sum(entry.num_bytes for entry in _scan(self._folder))
                self._known_bytes, self._bytes_since_scan = total, 0
            if total + self.file_bytes > self._max_bytes:
                limit = int(self._max_bytes * _EVICT_TO) - self.file_bytes
                self._known_bytes = evict(self._folder, max_bytes=max(0, limit))
                self._bytes_since_scan = 0
        self._namespace.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(self._namespace).free < self._min_free_bytes + self.file_bytes:
            raise OSError(f"less than {self._min_free_bytes} bytes would be left on the disk")


def evict(folder: Path, *, max_bytes: int) -> int:
    """Remove the blocks used longest ago until no more than `max_bytes` are left; the bytes left."""
    return _remove_oldest(_scan(folder), max_bytes)


def _remove_oldest(found: Iterable[_Entry], max_bytes: int) -> int:
    entries = sorted(found, key=lambda entry: entry.used_at)
    total = sum(entry.num_bytes for entry in entries)
    for entry in entries:
        if total <= max_bytes:
            break
        with contextlib.suppress(FileNotFoundError):  # another engine was faster
            os.unlink(entry.path)
        total -= entry.num_bytes
    return total


def manifest_names(folder: Path) -> set[str]:
    """Names of the lists of kept blocks, see `block_keys.manifest_name`."""
    with contextlib.suppress(OSError):
        return set(os.listdir(folder / _MANIFESTS))
    return set()


def purge(folder: Path, names: Collection[str]) -> int:
    """Remove these lists and the blocks that no other list has; how many files of blocks that were.

    A prompt's beginning that documents have in common stays as long as one of them does.
    """
    if not names:
        return 0
    manifests = folder / _MANIFESTS
    keys = {key for name in names for key in _read_keys(manifests / name)}
    for other in manifest_names(folder).difference(names):
        keys.difference_update(_read_keys(manifests / other))
    removed = 0
    for entry in list(_scan(folder)):
        if os.path.basename(entry.path).partition(".")[0] in keys:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(entry.path)
                removed += 1
    for name in names:
        (manifests / name).unlink(missing_ok=True)
    return removed


def trim_native_files(folder: Path, *, max_bytes: int) -> None:
    """Keep vLLM's own file tier to a quota, which it has none of: what was written first goes first."""
    files = []
    for root, _, names in os.walk(folder):
        for path in (os.path.join(root, name) for name in names):
            with contextlib.suppress(OSError):
                stat = os.stat(path)
                files.append(_Entry(path, stat.st_size, stat.st_mtime_ns))
    _remove_oldest(files, max_bytes)


def sweep(folder: Path) -> None:
    """Remove what nobody needs: old drafts, and old manifests none of whose blocks is left.

    A young one may be of blocks that another engine is about to write.
    """
    before = time.time() - _DRAFT_SECONDS
    kept = {os.path.basename(entry.path).partition(".")[0] for entry in _scan(folder)}
    with contextlib.suppress(OSError):
        for manifest in (folder / _MANIFESTS).iterdir():
            if manifest.stat().st_mtime < before and kept.isdisjoint(_read_keys(manifest)):
                manifest.unlink()
        for draft in folder.glob("*/*/*.tmp"):
            if draft.stat().st_mtime < before:
                draft.unlink()


def usage(folder: Path) -> StoreUsage:
    """What the folder holds; nothing where there is none."""
    entries = list(_scan(folder))
    return StoreUsage(
        num_blocks=len(entries),
        num_bytes=sum(entry.num_bytes for entry in entries),
        num_documents=len(manifest_names(folder)),
    )


def _scan(folder: Path) -> Iterator[_Entry]:
    """Every block file of every namespace; files that vanish while we look are left out."""
    for namespace in _folders(folder):
        if os.path.basename(namespace) == _MANIFESTS:
            continue
        for shard in _folders(namespace):
            with contextlib.suppress(OSError), os.scandir(shard) as files:
                for file in files:
                    if not file.name.endswith(".tmp"):
                        with contextlib.suppress(OSError):
                            stat = file.stat()
                            yield _Entry(file.path, stat.st_size, stat.st_mtime_ns)


def _folders(folder: str | Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if entry.is_dir()]
    except OSError:
        return []


def _read_keys(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii", errors="replace").split()
    except OSError:
        return []
