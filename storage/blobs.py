"""Files of tenants, by content hash."""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Protocol

from core.errors import NotFound, TooLarge
from core.ids import TenantId


class BlobWriter(Protocol):
    """Takes bytes as they come; nothing is visible until `commit`."""

    num_bytes: int

    def write(self, data: bytes) -> None: ...

    def commit(self) -> str:
        """Make the blob visible under its hex SHA-256, which is returned."""
        ...

    def discard(self) -> None:
        """Leave nothing behind. Does nothing after `commit`."""
        ...


class BlobStore(Protocol):
    """Where uploaded files lie; local files here, S3 can stand behind the same methods."""

    def writer(self, tenant_id: TenantId) -> BlobWriter: ...

    def local_path(self, tenant_id: TenantId, content_hash: str) -> AbstractContextManager[Path]:
        """The blob as a readable local file while the context lasts. Raises `NotFound`."""
        ...

    def exists(self, tenant_id: TenantId, content_hash: str) -> bool: ...

    def list_hashes(self, tenant_id: TenantId) -> Iterator[str]:
        """The tenant's blobs, in order."""
        ...

    def remove(self, tenant_id: TenantId, content_hash: str, *, before: datetime) -> bool:
        """Delete the blob if it was written before then, and not again since; whether it was."""
        ...

    def remove_partial(self, tenant_id: TenantId, *, before: datetime) -> None:
        """Delete what writers that died before then have left behind."""
        ...


class LocalBlobStore:
    """Blobs as files `<root>/<tenant>/<ab>/<sha256>`, written aside and renamed into place.

    Args:
        root: folder to keep them in.
        min_free_bytes: writing stops with `TooLarge` before the disk holds less than this.
    """

    def __init__(self, root: Path, *, min_free_bytes: int = 0) -> None:
        self._root = root
        self._min_free_bytes = min_free_bytes

    def writer(self, tenant_id: TenantId) -> LocalBlobWriter:
        folder = self._root / tenant_id
        folder.mkdir(parents=True, exist_ok=True)
        return LocalBlobWriter(folder, min_free_bytes=self._min_free_bytes)

    @contextmanager
    def local_path(self, tenant_id: TenantId, content_hash: str) -> Iterator[Path]:
        path = _path(self._root / tenant_id, content_hash)
        if not path.is_file():
            raise NotFound(
                f"The stored file {content_hash} is missing.",
                remedy="Run `longleaf doctor`, then upload the document again.",
                content_hash=content_hash,
            )
        yield path

    def exists(self, tenant_id: TenantId, content_hash: str) -> bool:
        return _path(self._root / tenant_id, content_hash).is_file()

    def list_hashes(self, tenant_id: TenantId) -> Iterator[str]:
        for folder in sorted((self._root / tenant_id).glob("??")):
            yield from sorted(path.name for path in folder.iterdir())

    def remove(self, tenant_id: TenantId, content_hash: str, *, before: datetime) -> bool:
        path = _path(self._root / tenant_id, content_hash)
        if not _is_older(path, before):
            return False
        path.unlink(missing_ok=True)
        return True

    def remove_partial(self, tenant_id: TenantId, *, before: datetime) -> None:
        for path in (self._root / tenant_id).glob(".*.part"):
            if _is_older(path, before):
                path.unlink(missing_ok=True)


class LocalBlobWriter:
    """Writes beside its final place, on the same file system, so that the rename is atomic."""

    _CHECK_DISK_EVERY = 16 * 1024 * 1024

    def __init__(self, folder: Path, *, min_free_bytes: int) -> None:
        self._folder = folder
        self._min_free_bytes = min_free_bytes
        self._hash = hashlib.sha256()
        self._temporary = folder / f".{uuid.uuid4().hex}.part"
        self._file: BinaryIO | None = self._temporary.open("wb")
        self._next_check = 0
        self.num_bytes = 0

    def write(self, data: bytes) -> None:
        if self._file is None:
            raise ValueError("the writer is closed")
        if self.num_bytes >= self._next_check:
            self._require_space()
            self._next_check = self.num_bytes + self._CHECK_DISK_EVERY
        self._file.write(data)
        self._hash.update(data)
        self.num_bytes += len(data)

    def commit(self) -> str:
        if self._file is None:
            raise ValueError("the writer is closed")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._file = None
        digest = self._hash.hexdigest()
        path = _path(self._folder, digest)
        path.parent.mkdir(exist_ok=True)
        os.replace(self._temporary, path)
        return digest

    def discard(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            self._temporary.unlink(missing_ok=True)

    def _require_space(self) -> None:
        free = shutil.disk_usage(self._folder).free
        if free < self._min_free_bytes:
            raise TooLarge(
                f"The disk has {free // 2**20} MiB left, below the reserve of "
                f"{self._min_free_bytes // 2**20} MiB.",
                remedy="Free space on the server, or lower LONGLEAF_UPLOAD__MIN_FREE_DISK_BYTES.",
                free_bytes=free,
            )


def _is_older(path: Path, moment: datetime) -> bool:
    """Whether the file was last written before then; False where it is gone."""
    try:
        return path.stat().st_mtime < moment.timestamp()
    except FileNotFoundError:
        return False


def _path(folder: Path, content_hash: str) -> Path:
    return folder / content_hash[:2] / content_hash
