"""Which blocks are loaded and kept for which request."""

from __future__ import annotations

from pathlib import Path

import pytest

from inference.kv_store.block_file import block_buffer
from inference.kv_store.block_keys import KeyChain
from inference.kv_store.block_store import BlockStore, manifest_names
from inference.kv_store.kept_text import KeptText
from inference.kv_store.request_plans import RequestPlans

PROMPT = list(range(100))  # of blocks of 10
BLOCK_IDS = [200 + index for index in range(10)]


class House:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = BlockStore(folder, "n", payload_bytes=8, max_bytes=10**6)
        self.failures: list[str] = []
        self.plans = RequestPlans(
            self.store, "n", block_tokens=10, report=lambda event, _: self.failures.append(event)
        )

    def write(self, *indexes: int, salt: str = "t") -> None:
        chain = KeyChain("n", salt, PROMPT, block_tokens=10)
        for index in indexes:
            self.store.write(chain[index], block_buffer(8))

    def find(
        self, *, num_computed: int = 0, keep: int | None = None, salt: str = "t", label: str = ""
    ) -> int:
        kept = None if keep is None else KeptText(keep, label)
        return self.plans.find(
            "r", PROMPT, salt=salt, kept=kept, num_computed=num_computed, num_tokens=len(PROMPT)
        )

    def loads(self) -> list[int]:
        return [load.block_id - 200 for load in self.plans.take_loads("r", BLOCK_IDS)]

    def saves(self, num_computed: int) -> list[int]:
        taken = self.plans.take_saves("r", BLOCK_IDS, num_computed=num_computed)
        return [save.block_id - 200 for save in taken]


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path / "kv")


def test_blocks_in_a_row_are_found_and_loaded_once(house: House) -> None:
    house.write(0, 1, 2, 4)
    assert house.find() == 30
    assert house.plans.is_idle("r")  # found is not yet promised
    house.plans.expect("r", 30)
    assert house.loads() == [0, 1, 2]
    assert house.loads() == []
    assert house.plans.finish("r") == 30


def test_what_the_engine_has_is_not_loaded(house: House) -> None:
    house.write(0, 1, 2, 3)
    assert house.find(num_computed=20) == 20
    house.plans.expect("r", 20)
    assert house.loads() == [2, 3]


def test_one_token_is_left_to_compute(house: House) -> None:
    house.write(*range(10))
    assert house.find() == 90


def test_another_tenant_s_blocks_are_not_found(house: House) -> None:
    house.write(0, 1, 2, salt="other")
    assert house.find() == 0


def test_nothing_is_kept_of_what_was_not_marked(house: House) -> None:
    assert house.find() == 0
    assert house.saves(100) == []
    assert manifest_names(house.folder) == set()


def test_whole_blocks_of_static_text_are_kept_as_they_are_computed(house: House) -> None:
    house.find(keep=47, label="doc_1")
    assert house.saves(25) == [0, 1]
    assert house.saves(38) == [2]
    assert not house.plans.is_idle("r")
    assert house.saves(100) == [3]  # of block 4, three tokens are not static
    assert house.plans.is_idle("r")
    assert len(manifest_names(house.folder)) == 1


def test_what_is_on_disk_is_not_written_again_and_gaps_are_filled(house: House) -> None:
    house.write(0, 2)
    house.find(keep=40)
    assert house.saves(40) == [1, 3]


def test_after_a_damaged_block_the_rest_is_computed_and_kept_again(house: House) -> None:
    house.write(0, 1, 2, 3)
    assert house.find(keep=40) == 40
    house.plans.expect("r", 40)
    assert house.loads() == [0, 1, 2, 3]
    assert house.saves(50) == []
    assert house.plans.fail("r", BLOCK_IDS, {202}) == 20
    for path in house.folder.rglob(f"{KeyChain('n', 't', PROMPT, block_tokens=10)[2]}.0"):
        path.unlink()
    assert house.saves(50) == [2]
    assert house.plans.finish("r") == 20


def test_a_failure_of_another_request_s_blocks_changes_nothing(house: House) -> None:
    house.write(0, 1)
    house.plans.expect("unknown", 10)
    house.find()
    house.plans.expect("r", 20)
    assert house.plans.fail("r", BLOCK_IDS, {999}) is None
    assert house.plans.fail("unknown", BLOCK_IDS, {200}) is None
    assert house.plans.finish("r") == 20
    assert house.plans.finish("unknown") == 0


def test_a_request_that_was_preempted_has_no_blocks_that_could_fail(house: House) -> None:
    house.write(0, 1, 2)
    house.plans.expect("r", house.find())
    assert house.loads() == [0, 1, 2]
    assert house.plans.fail("r", [], {200}) is None


def test_a_folder_not_to_be_written_to_fails_no_request(tmp_path: Path) -> None:
    (tmp_path / "kv").write_text("in the way")
    house = House(tmp_path / "kv")
    assert house.find(keep=40, label="doc_1") == 0
    assert house.failures == ["record_failed"]
    assert house.saves(40) == [0, 1, 2, 3]
