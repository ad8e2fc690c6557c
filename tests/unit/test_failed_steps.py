"""What was computed over blocks that could not be loaded is never kept."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from inference.kv_store.failed_steps import FailedSteps
from inference.kv_store.request_plans import BlockTransfer


def test_steps_that_read_what_could_not_be_loaded_are_not_kept_and_later_ones_are() -> None:
    steps = FailedSteps()
    assert steps.may_save(-1)
    steps.add(7)
    assert not steps.may_save(-1)  # the step itself, and one that was planned before its end was known
    assert not steps.may_save(6)  # what was heard of was an earlier failure
    assert steps.may_save(8)  # the scheduler heard of it when it had planned step 8; this one is later


def test_the_worker_offers_nothing_to_the_disk_in_a_step_whose_loading_failed() -> None:
    pytest.importorskip("vllm")
    from inference.kv_store.connector import BlockStoreConnector, StoreMetadata
    from inference.kv_store.connector_stats import StoreStats

    offered: list[str] = []
    worker = object.__new__(BlockStoreConnector)
    worker._is_on, worker._rank, worker._stats = True, 0, StoreStats()
    worker._failed_block_ids, worker._failed_steps = set(), FailedSteps()
    worker._memory = SimpleNamespace(save=lambda block_id: bytearray(8))
    worker._store = SimpleNamespace(file_bytes=8, touch=lambda keys, rank: None)
    worker._readers = SimpleNamespace(map=lambda function, loads: [load.key != "gone" for load in loads])
    worker._writer = SimpleNamespace(has_room=lambda size: True, offer=lambda key, _: offered.append(key))

    def step(number: int, heard_until: int, *, load: str = "") -> None:
        loads = [BlockTransfer(load, 1)] if load else []
        saves = [BlockTransfer(f"of step {number}", 2)]
        worker._connector_metadata = StoreMetadata(number, heard_until, loads, saves)
        worker.start_load_kv(None)
        worker.wait_for_save()

    step(1, -1, load="there")
    step(2, -1, load="gone")
    step(3, -1)  # planned before the scheduler heard of it
    step(4, 3)
    assert offered == ["of step 1", "of step 4"]
    assert worker.get_block_ids_with_load_errors() == {1}
