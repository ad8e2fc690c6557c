"""Files appear whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import NotFound, TooLarge
from core.ids import TenantId, content_hash
from storage.blobs import LocalBlobStore

TENANT, OTHER = TenantId("ten_a"), TenantId("ten_b")


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def test_a_blob_is_found_by_the_hash_of_its_bytes(tmp_path: Path) -> None:
    store = LocalBlobStore(tmp_path)
    writer = store.writer(TENANT)
    writer.write("长文档".encode())
    writer.write(b" and more")
    digest = writer.commit()
    assert digest == content_hash("长文档 and more")
    with store.local_path(TENANT, digest) as path:
        assert path.read_text() == "长文档 and more"
    assert list(store.list_hashes(TENANT)) == [digest]


def test_nothing_is_visible_before_the_commit_and_nothing_is_left_after_a_discard(tmp_path: Path) -> None:
    store = LocalBlobStore(tmp_path)
    writer = store.writer(TENANT)
    writer.write(b"half")
    assert list(store.list_hashes(TENANT)) == []
    writer.discard()
    writer.discard()
    assert files(tmp_path) == []


def test_another_tenants_blob_is_missing(tmp_path: Path) -> None:
    store = LocalBlobStore(tmp_path)
    writer = store.writer(TENANT)
    writer.write(b"secret")
    digest = writer.commit()
    assert not store.exists(OTHER, digest)
    with pytest.raises(NotFound), store.local_path(OTHER, digest):
        pass


def test_the_same_bytes_twice_are_one_file(tmp_path: Path) -> None:
    store = LocalBlobStore(tmp_path)
    for _ in range(2):
        writer = store.writer(TENANT)
        writer.write(b"same")
        writer.commit()
    assert len(files(tmp_path)) == 1


def test_writing_stops_before_the_disk_is_full(tmp_path: Path) -> None:
    store = LocalBlobStore(tmp_path, min_free_bytes=2**62)
    writer = store.writer(TENANT)
    with pytest.raises(TooLarge, match="disk"):
        writer.write(b"x")
    writer.discard()
    assert files(tmp_path) == []
