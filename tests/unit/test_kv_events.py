"""What an engine holds, told by its own events."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from core.errors import Misconfigured
from core.settings import Settings
from inference.held_blocks import AllCleared, BlocksRemoved, BlocksStored
from inference.kv_event_messages import Unfollowable, decode_batch
from inference.kv_events import EventEndpoint, EventOrder, KvEventFollower, followed_events, local_events
from inference.resident_prefixes import CacheGeometry, ResidentPrefixes

BLOCK = 4


def cache(num_blocks: int | None = None, *, is_complete: bool = True) -> ResidentPrefixes:
    prefixes = ResidentPrefixes(CacheGeometry(BLOCK, num_blocks))
    prefixes.mirror(is_complete=is_complete)
    return prefixes


def names(salt: str, tokens: Sequence[int]) -> list[bytes]:
    """As vLLM names blocks: by all tokens up to their end."""
    ends = range(BLOCK, len(tokens) + 1, BLOCK)
    return [f"{salt}:{list(tokens[:end])}".encode() for end in ends]


def stored(tokens: Sequence[int], *, salt: str = "a", behind: int = 0) -> BlocksStored:
    """The whole blocks of a prompt but for the first `behind`, which were there."""
    hashes = names(salt, tokens)
    salts = [salt, *[""] * (len(hashes) - 1)][behind:]
    parent = hashes[behind - 1] if behind else None
    return BlocksStored(hashes[behind:], parent, list(tokens[behind * BLOCK : len(hashes) * BLOCK]), salts)


def removed(tokens: Sequence[int], *, salt: str = "a") -> BlocksRemoved:
    """The last block of those tokens."""
    return BlocksRemoved(names(salt, tokens)[-1:])


def cached(prefixes: ResidentPrefixes, tokens: Sequence[int], salt: str = "a") -> int:
    return prefixes.num_cached(salt, [*tokens, 999])


def test_what_anybody_stored_is_known_under_its_salt_only() -> None:
    prefixes = cache()
    prefixes.told([stored(range(12)), stored(range(8), salt="b"), stored(range(4), salt="")])
    assert [cached(prefixes, range(12), salt) for salt in ("a", "b", "", "c")] == [12, 8, 4, 0]


def test_a_prompt_that_goes_on_behind_another_is_found_behind_it() -> None:
    prefixes = cache()
    fork = [*range(8), *range(50, 58)]
    prefixes.told([stored(range(12)), stored(fork, behind=2)])
    assert (cached(prefixes, range(12)), cached(prefixes, fork)) == (12, 16)


def test_what_was_removed_is_gone_and_what_stood_behind_it_comes_back_with_it() -> None:
    prefixes = cache()
    prefixes.told([stored(range(12)), removed(range(8))])
    assert cached(prefixes, range(12)) == 4
    prefixes.told([BlocksStored(names("a", range(8))[1:], names("a", range(4))[0], [4, 5, 6, 7], [""])])
    assert cached(prefixes, range(12)) == 12


def test_of_two_copies_one_may_go() -> None:
    prefixes = cache()
    prefixes.told([stored(range(8)), stored(range(8), behind=1), removed(range(8))])
    assert cached(prefixes, range(8)) == 8
    prefixes.told([removed(range(8))])
    assert cached(prefixes, range(8)) == 4


def test_a_reset_forgets_everything_and_makes_exact_what_began_late() -> None:
    prefixes = cache(is_complete=False)
    prefixes.told([stored(range(8))])
    assert not prefixes.is_exact
    prefixes.told([AllCleared()])
    assert prefixes.is_exact
    assert cached(prefixes, range(8)) == 0


def test_a_mirror_that_began_late_is_exact_once_nothing_older_can_be_left() -> None:
    prefixes = cache(num_blocks=4, is_complete=False)  # three, and the one that vLLM keeps empty
    prefixes.told([stored(range(8))])
    assert not prefixes.is_exact  # one block of before may be there
    prefixes.told([BlocksRemoved([b"older"])])
    assert prefixes.is_exact
    full = cache(num_blocks=4, is_complete=False)
    full.told([stored(range(12))])
    assert full.is_exact


def test_while_events_are_missing_it_is_estimated() -> None:
    prefixes = cache()
    prefixes.finished(prefixes.sent("a", range(9)), cached_tokens=0, completion_tokens=0)
    assert cached(prefixes, range(8)) == 0  # the engine told of nothing: it holds nothing
    prefixes.lose_track()
    assert cached(prefixes, range(8)) == 8
    prefixes.mirror(is_complete=False)
    assert cached(prefixes, range(8)) == 8


def test_prompts_can_line_up_with_a_request_that_runs() -> None:
    prefixes = cache()
    prefixes.told([stored(range(4))])
    sent = prefixes.sent("a", range(12))
    assert (prefixes.num_cached("a", range(13)), prefixes.num_expected("a", range(13))) == (4, 12)
    reach, is_all = prefixes.follow(prefixes.start("a"), range(12))
    assert (reach.num_cached, is_all) == (12, True)
    prefixes.finished(sent, cached_tokens=4, completion_tokens=0)
    assert prefixes.num_expected("a", range(13)) == 4  # it left nothing, as it seems
    prefixes.told([stored(range(12), behind=1)])
    reach, _ = prefixes.follow(prefixes.start("a"), range(6))
    assert prefixes.follow(reach, range(6, 12))[0].num_cached == 12


def test_a_request_that_failed_is_lined_up_with_no_longer() -> None:
    prefixes = cache()
    prefixes.abandoned(prefixes.sent("a", range(12)))
    assert prefixes.num_expected("a", range(13)) == 0


# ---- messages ----------------------------------------------------------------------------


def message(*events: dict[str, Any], rank: int = 0) -> bytes:
    return msgspec.msgpack.encode([1.0, list(events), rank])


def stored_message(tokens: Sequence[int], *, salt: str = "a", **fields: Any) -> dict[str, Any]:
    hashes = names(salt, tokens)
    told = {
        "type": "BlockStored",
        "block_hashes": hashes,
        "parent_block_hash": None,
        "token_ids": list(tokens),
        "block_size": BLOCK,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
        "extra_keys": [(salt,), *[None] * (len(hashes) - 1)],
        "group_idx": 0,
    }
    return told | fields


def test_a_message_names_the_salt_of_a_prompts_first_block() -> None:
    gone = {"type": "BlockRemoved", "block_hashes": [b"x"], "medium": "GPU"}
    payload = message(stored_message(range(8)), gone, {"type": "AllBlocksCleared"})
    assert decode_batch(payload, block_tokens=BLOCK) == [
        BlocksStored(names("a", range(8)), None, list(range(8)), ["a", ""]),
        BlocksRemoved([b"x"]),
        AllCleared(),
    ]


def test_what_was_moved_out_of_the_cache_is_no_part_of_it() -> None:
    told = decode_batch(message(stored_message(range(4), medium="CPU")), block_tokens=BLOCK)
    assert told == []


def test_blocks_of_an_adapter_or_a_picture_are_held_and_never_found() -> None:
    prefixes = cache(num_blocks=4, is_complete=False)
    for fields in (
        {"lora_name": "a", "extra_keys": [("a",), ("a",)]},
        {"extra_keys": [(("image", 0),), None]},
    ):
        prefixes.mirror(is_complete=True)
        prefixes.told(decode_batch(message(stored_message(range(8), **fields)), block_tokens=BLOCK))
        assert [cached(prefixes, range(8), salt) for salt in ("a", "")] == [0, 0]


@pytest.mark.parametrize(
    "payload",
    [
        message(stored_message(range(4), block_size=16)),
        message(stored_message(range(4), group_idx=1)),
        message(stored_message(range(4)), rank=1),
        message({"type": "BlockMoved"}),
        message({"type": "BlockStored"}),
        b"\xc1",
    ],
)
def test_a_cache_of_another_kind_is_not_followed(payload: bytes) -> None:
    with pytest.raises(Unfollowable):
        decode_batch(payload, block_tokens=BLOCK)


# ---- order --------------------------------------------------------------------------------


class Engine:
    """Messages it sent, of which it keeps the last `kept`."""

    def __init__(self, *, kept: int = 100, answers: bool = True) -> None:
        self.sent: list[bytes] = []
        self.kept = kept
        self.answers = answers

    def send(self, *events: dict[str, Any]) -> tuple[int, bytes]:
        self.sent.append(message(*events))
        return len(self.sent) - 1, self.sent[-1]

    def replay(self, first: int) -> list[tuple[int, bytes]] | None:
        kept = list(enumerate(self.sent))[-self.kept :]
        return [each for each in kept if each[0] >= first] if self.answers else None


def test_what_was_sent_before_is_asked_for() -> None:
    engine, prefixes = Engine(), cache()
    engine.send(stored_message(range(8)))
    order = EventOrder(prefixes, engine.replay)
    order.connected()
    order.received(*engine.send(stored_message(range(8), salt="b")))
    assert prefixes.is_exact
    assert (cached(prefixes, range(8)), cached(prefixes, range(8), "b")) == (8, 8)


def test_a_message_that_comes_twice_counts_once() -> None:
    engine, prefixes = Engine(), cache()
    order = EventOrder(prefixes, engine.replay)
    number, payload = engine.send(stored_message(range(8)))
    order.connected()
    order.received(number, payload)
    order.received(
        *engine.send({"type": "BlockRemoved", "block_hashes": names("a", range(8)), "medium": "GPU"})
    )
    assert cached(prefixes, range(8)) == 0


def test_a_gap_is_filled_or_else_everything_is_forgotten() -> None:
    engine, prefixes = Engine(), cache()
    order = EventOrder(prefixes, engine.replay)
    order.connected()
    engine.send(stored_message(range(8)))
    order.received(*engine.send(stored_message(range(4), salt="b")))
    assert prefixes.is_exact
    assert cached(prefixes, range(8)) == 8
    engine.kept = 1
    engine.send(stored_message(range(4), salt="c"))
    order.received(*engine.send(stored_message(range(4), salt="d")))
    assert not prefixes.is_exact
    order.received(*engine.send({"type": "AllBlocksCleared"}, stored_message(range(8), salt="e")))
    assert prefixes.is_exact
    assert [cached(prefixes, range(8), salt) for salt in "abcde"] == [0, 0, 0, 0, 8]


def test_a_last_message_that_was_lost_is_found_by_asking() -> None:
    engine, prefixes = Engine(), cache()
    order = EventOrder(prefixes, engine.replay)
    order.connected()
    engine.send(stored_message(range(8)))
    order.check()
    assert cached(prefixes, range(8)) == 8


def test_an_engine_that_began_anew_holds_what_it_says_now() -> None:
    engine, prefixes = Engine(), cache()
    order = EventOrder(prefixes, engine.replay)
    order.connected()
    order.received(*engine.send(stored_message(range(8))))
    order.disconnected()
    assert not prefixes.is_exact
    engine.sent.clear()
    engine.send(stored_message(range(8), salt="b"))
    engine.send(stored_message(range(4), salt="b"))
    order.connected()
    assert prefixes.is_exact
    assert (cached(prefixes, range(8)), cached(prefixes, range(8), "b")) == (0, 8)


@pytest.mark.parametrize("num_before", [0, 1])
def test_without_replay_only_the_first_message_of_all_makes_it_exact(num_before: int) -> None:
    engine, prefixes = Engine(answers=False), cache()
    order = EventOrder(prefixes, engine.replay)
    for _ in range(num_before):
        engine.send(stored_message(range(4), salt="b"))
    order.connected()
    assert not prefixes.is_exact
    order.received(*engine.send(stored_message(range(8))))
    assert prefixes.is_exact is (num_before == 0)


# ---- the thread ------------------------------------------------------------------------------


class Publisher:
    """The sockets of vLLM's own, and its way to answer who missed something."""

    def __init__(self, endpoint: EventEndpoint) -> None:
        self._engine = Engine()
        self._context = zmq.Context()
        self._events = self._context.socket(zmq.PUB)
        self._replay = self._context.socket(zmq.ROUTER)
        self._events.bind(endpoint.events)
        self._replay.bind(endpoint.replay)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def send(self, *events: dict[str, Any]) -> None:
        number, payload = self._engine.send(*events)
        self._events.send_multipart((b"", number.to_bytes(8, "big"), payload))

    def close(self) -> None:
        self._ends.set()
        self._thread.join()
        self._context.destroy(linger=0)

    def _serve(self) -> None:
        while not self._ends.is_set():
            if self._replay.poll(20):
                caller, _, first = self._replay.recv_multipart()
                for number, payload in self._engine.replay(int.from_bytes(first, "big")) or ():
                    self._replay.send_multipart((caller, b"", b"", number.to_bytes(8, "big"), payload))
                self._replay.send_multipart((caller, b"", b"", (-1).to_bytes(8, "big", signed=True), b""))


@pytest.fixture
def endpoint(tmp_path: Path) -> EventEndpoint:
    return EventEndpoint.of(f"ipc://{tmp_path}/kv")


@pytest.fixture
def followed(endpoint: EventEndpoint) -> Iterator[ResidentPrefixes]:
    prefixes = ResidentPrefixes(CacheGeometry(BLOCK))
    follower = KvEventFollower(endpoint, prefixes)
    follower.start()
    yield prefixes
    follower.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "kv-events"]
    assert not prefixes.is_exact


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_thread_follows_an_engine_through_its_restart(
    endpoint: EventEndpoint, followed: ResidentPrefixes
) -> None:
    first = Publisher(endpoint)
    first.send(stored_message(range(8)))
    wait_until(lambda: cached(followed, range(8)) == 8)
    first.send(stored_message(range(4), salt="b"))
    wait_until(lambda: cached(followed, range(4), "b") == 4)
    first.close()
    wait_until(lambda: not followed.is_exact)
    second = Publisher(endpoint)
    wait_until(lambda: followed.is_exact)
    assert cached(followed, range(8)) == 0
    second.close()


def test_a_cache_that_cannot_be_followed_is_estimated(
    endpoint: EventEndpoint, followed: ResidentPrefixes
) -> None:
    engine = Publisher(endpoint)
    wait_until(lambda: followed.is_exact)
    engine.send(stored_message(range(4), block_size=16))
    wait_until(lambda: not followed.is_exact)
    engine.close()


# ---- settings -----------------------------------------------------------------------------------


def given(url: str, kv_events: str) -> Settings:
    return Settings(home=Path("/data"), engine={"url": url, "kv_events": kv_events})  # type: ignore[arg-type]


def test_a_local_engine_publishes_through_a_socket_of_the_data_folder() -> None:
    local = local_events(given("", "on"))
    assert local == EventEndpoint("ipc:///data/run/kv", "ipc:///data/run/kv.replay")
    assert followed_events(given("", "on")) == (local,)


def test_engines_elsewhere_are_followed_where_the_setting_says() -> None:
    both = given("http://a:1,http://b:1", "tcp://a:5557, tcp://b:6000")
    assert followed_events(both) == (
        EventEndpoint("tcp://a:5557", "tcp://a:5558"),
        EventEndpoint("tcp://b:6000", "tcp://b:6001"),
    )
    assert local_events(both) is None
    assert followed_events(given("http://a:1", "off")) == ()


@pytest.mark.parametrize(
    ("url", "kv_events"),
    [
        ("", "tcp://a:5557"),
        ("http://a:1", "on"),
        ("http://a:1", ""),
        ("http://a:1", "a:5557"),
        ("http://a:1,http://b:1", "tcp://a:5557"),
    ],
)
def test_addresses_that_do_not_fit_the_engines_are_refused(url: str, kv_events: str) -> None:
    with pytest.raises(Misconfigured):
        followed_events(given(url, kv_events))
