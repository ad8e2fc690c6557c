"""KV blocks on disk: names, files, quota, manifests, the writer."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.kv_store.block_file import HEADER_BYTES, DamagedBlock, block_buffer
from inference.kv_store.block_keys import KeyChain, manifest_name, namespace_of
from inference.kv_store.block_store import (
    BlockStore,
    evict,
    manifest_names,
    purge,
    sweep,
    trim_native_files,
    usage,
)
from inference.kv_store.block_writer import BlockWriter
from inference.kv_store.kept_text import KeptText, keeps_blocks, loaded_json

PAYLOAD = 1000
FILE = HEADER_BYTES + PAYLOAD
TOKENS = list(range(100, 196))


def keys(salt: str = "tenant", tokens: list[int] = TOKENS, namespace: str = "n") -> list[str]:
    chain = KeyChain(namespace, salt, tokens, block_tokens=32)
    return [chain[index] for index in range(chain.num_blocks)]


def store(folder: Path, *, max_blocks: int = 100, namespace: str = "n", num_ranks: int = 1) -> BlockStore:
    return BlockStore(
        folder, namespace, payload_bytes=PAYLOAD, num_ranks=num_ranks, max_bytes=max_blocks * FILE
    )


def block(fill: int = 7) -> bytearray:
    buffer = block_buffer(PAYLOAD)
    buffer[HEADER_BYTES:] = bytes([fill]) * PAYLOAD
    return buffer


def read(target: BlockStore, key: str) -> bytes:
    return bytes(target.read(key, bytearray(FILE)))


def file_of(folder: Path, key: str) -> Path:
    (path,) = folder.glob(f"*/*/{key}.0")
    return path


def test_a_key_covers_all_tokens_up_to_its_block_s_end() -> None:
    changed = [*TOKENS[:40], 7, *TOKENS[41:]]
    ours, theirs = keys(), keys(tokens=changed)
    assert len(set(ours)) == 3
    assert ours[0] == theirs[0]
    assert ours[1] != theirs[1]
    assert ours[2] != theirs[2]


def test_another_tenant_or_model_has_other_keys_from_the_first_block_on() -> None:
    assert not set(keys()) & set(keys(salt="other"))
    assert not set(keys()) & set(keys(namespace="m"))
    assert namespace_of({"dtype": "bf16"}) != namespace_of({"dtype": "fp32"})
    assert namespace_of({"a": 1, "b": 2}) == namespace_of({"b": 2, "a": 1})


@given(st.lists(st.integers(0, 2**31), max_size=200), st.integers(1, 64))
def test_keys_do_not_depend_on_what_follows_nor_on_the_order_of_asking(tokens: list[int], size: int) -> None:
    chain = KeyChain("n", "s", tokens, block_tokens=size)
    longer = KeyChain("n", "s", [*tokens, 1], block_tokens=size)
    assert chain.num_blocks == len(tokens) // size
    backwards = [longer[index] for index in reversed(range(chain.num_blocks))]
    assert backwards[::-1] == [chain[index] for index in range(chain.num_blocks)]
    with pytest.raises(IndexError):
        chain[chain.num_blocks]


def test_a_block_reads_back_as_it_was_written(tmp_path: Path) -> None:
    target = store(tmp_path)
    assert not target.has(keys()[0])
    target.write(keys()[0], block(7))
    assert target.has(keys()[0])
    assert read(target, keys()[0]) == bytes([7]) * PAYLOAD
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize("offset", [0, 4, 8, 20, 37, 41, HEADER_BYTES, FILE - 1])
def test_a_changed_bit_is_found_and_the_file_removed(tmp_path: Path, offset: int) -> None:
    target, key = store(tmp_path), keys()[0]
    target.write(key, block())
    path = file_of(tmp_path, key)
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedBlock):
        read(target, key)
    assert not path.exists()


@pytest.mark.parametrize("content", [b"", b"x" * FILE, b"\0" * FILE])
def test_a_foreign_or_empty_file_is_no_block(tmp_path: Path, content: bytes) -> None:
    target, key = store(tmp_path), keys()[0]
    target.write(key, block())
    file_of(tmp_path, key).write_bytes(content)
    with pytest.raises(DamagedBlock):
        read(target, key)


def test_a_file_of_another_size_does_not_count_as_there(tmp_path: Path) -> None:
    target, key = store(tmp_path), keys()[0]
    target.write(key, block())
    path = file_of(tmp_path, key)
    path.write_bytes(path.read_bytes() + b"x")
    assert not target.has(key)
    with pytest.raises(DamagedBlock):
        read(target, key)


def test_a_block_under_another_s_name_is_refused(tmp_path: Path) -> None:
    target = store(tmp_path)
    first, second, _ = keys()
    target.write(first, block(1))
    target.write(second, block(2))
    file_of(tmp_path, first).replace(file_of(tmp_path, second))
    with pytest.raises(DamagedBlock):
        read(target, second)


def test_a_block_is_there_when_every_rank_has_written_its_part(tmp_path: Path) -> None:
    target, key = store(tmp_path, num_ranks=2), keys()[0]
    target.write(key, block(), rank=0)
    assert not target.has(key)
    target.write(key, block(), rank=1)
    assert target.has(key)


def test_what_was_used_longest_ago_goes_first_and_the_end_of_a_prompt_before_its_beginning(
    tmp_path: Path,
) -> None:
    target = store(tmp_path)
    old, new = keys(salt="old"), keys(salt="new")
    for key in new + old:
        target.write(key, block())
    target.touch(old)
    os.utime(file_of(tmp_path, old[0]), (1, 3))
    os.utime(file_of(tmp_path, old[1]), (1, 2))
    os.utime(file_of(tmp_path, old[2]), (1, 1))
    target.touch(new)
    assert evict(tmp_path, max_bytes=4 * FILE) == 4 * FILE
    assert [target.has(key) for key in old + new] == [True, False, False, True, True, True]
    evict(tmp_path, max_bytes=2 * FILE)
    assert [target.has(key) for key in old + new] == [False, False, False, True, True, False]


def test_the_quota_holds_over_all_namespaces_and_engines(tmp_path: Path) -> None:
    ours, theirs = store(tmp_path, max_blocks=10), store(tmp_path, max_blocks=10, namespace="m")
    for number in range(40):
        ours.write(keys(salt=f"{number}")[0], block())
        theirs.write(keys(salt=f"{number}", namespace="m")[0], block())
    assert usage(tmp_path).num_bytes <= 11 * FILE
    assert theirs.has(keys(salt="39", namespace="m")[0])


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    target = BlockStore(tmp_path, "n", payload_bytes=PAYLOAD, max_bytes=10**9, min_free_bytes=2**62)
    with pytest.raises(OSError, match="would be left"):
        target.write(keys()[0], block())
    assert usage(tmp_path).num_blocks == 0


def test_a_purge_removes_a_document_s_blocks_but_not_what_another_needs(tmp_path: Path) -> None:
    target = store(tmp_path)
    ours = keys()
    shared = keys(tokens=[*TOKENS[:32], *range(64)])
    for key in {*ours, *shared}:
        target.write(key, block())
    target.record("tenant", "doc_1", ours)
    target.record("tenant", "doc_1", ours)
    target.record("tenant", "doc_2", shared)
    assert usage(tmp_path).num_documents == 2
    assert purge(tmp_path, {manifest_name("foreign", "doc_1")}) == 0
    assert purge(tmp_path, {manifest_name("tenant", "doc_1")}) == 2
    assert [target.has(key) for key in ours] == [True, False, False]
    assert all(target.has(key) for key in shared)
    assert manifest_names(tmp_path) == {manifest_name("tenant", "doc_2")}


def test_sweeping_removes_old_drafts_and_lists_of_nothing(tmp_path: Path) -> None:
    target = store(tmp_path)
    target.write(keys()[0], block())
    target.record("tenant", "doc_1", keys())
    target.record("tenant", "doc_2", keys(salt="gone"))
    for name in manifest_names(tmp_path):
        os.utime(tmp_path / "manifests" / name, (1, 1))
    target.record("tenant", "doc_3", keys(salt="not written yet"))
    old, young = (tmp_path / "n" / keys()[0][:2] / f"{name}.tmp" for name in ("old", "young"))
    old.write_bytes(b"x")
    young.write_bytes(b"x")
    os.utime(old, (1, 1))
    sweep(tmp_path)
    assert (old.exists(), young.exists()) == (False, True)
    left = {manifest_name("tenant", "doc_1"), manifest_name("tenant", "doc_3")}
    assert manifest_names(tmp_path) == left
    assert usage(tmp_path).num_blocks == 1


def test_no_folder_is_an_empty_store(tmp_path: Path) -> None:
    nowhere = tmp_path / "none"
    sweep(nowhere)
    trim_native_files(nowhere, max_bytes=1)
    assert purge(nowhere, {"x"}) == 0
    assert (usage(nowhere).num_blocks, manifest_names(nowhere)) == (0, set())


def test_native_files_are_kept_to_a_quota(tmp_path: Path) -> None:
    for age in (1, 2, 3):
        path = tmp_path / "model_r0" / "abc" / f"{age}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 100)
        os.utime(path, (age, age))
    trim_native_files(tmp_path, max_bytes=250)
    assert sorted(path.name for path in tmp_path.rglob("*.bin")) == ["2.bin", "3.bin"]


def test_what_a_request_says_survives_the_way_and_nonsense_says_nothing() -> None:
    kept = KeptText(120, "doc_1")
    assert KeptText.of_json(kept.as_json()) == kept
    for nonsense in (None, "x", {}, {"longleaf_keep": 3}, {"longleaf_keep": {"num_tokens": "9"}}):
        assert KeptText.of_json(nonsense) is None
    assert keeps_blocks({"kv_transfer_params": loaded_json(0)})
    assert not keeps_blocks({"kv_transfer_params": None})


class Reports(list[tuple[str, str]]):
    def __call__(self, event: str, reason: str) -> None:
        self.append((event, reason))


def test_the_writer_writes_what_is_not_there_yet(tmp_path: Path) -> None:
    reports = Reports()
    target = store(tmp_path)
    writer = BlockWriter(target, rank=0, report=reports)
    assert writer.offer(keys()[0], block())
    assert writer.offer(keys()[0], block())
    writer.close()
    assert reports == [("written", "")]
    assert target.has(keys()[0])


def test_a_broken_disk_is_counted_and_left_alone_for_a_while(tmp_path: Path) -> None:
    reports, now = Reports(), [0.0]
    broken = tmp_path / "file"
    broken.write_text("in the way")
    writer = BlockWriter(store(broken), rank=0, report=reports, clock=lambda: now[0])
    writer.offer(keys()[0], block())
    deadline = threading.Event()
    for _ in range(500):
        if reports:
            break
        deadline.wait(0.01)
    assert not writer.offer(keys()[1], block())
    now[0] = 31.0
    broken.unlink()
    assert writer.offer(keys()[2], block())
    writer.close()
    assert [event for event, _ in reports] == ["write_failed", "dropped", "written"]


def test_what_waits_to_be_written_is_bounded(tmp_path: Path) -> None:
    writer = BlockWriter(store(tmp_path), rank=0, report=Reports(), max_pending_bytes=FILE - 1)
    assert not writer.offer(keys()[0], block())
    writer.close()
