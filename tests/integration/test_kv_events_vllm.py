"""A real engine that publishes what its cache holds: what is expected to be cached is what is cached."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from inference.completions_client import CompletionsClient
from inference.held_blocks import AllCleared, BlocksRemoved, BlocksStored
from inference.kv_event_messages import decode_batch
from inference.kv_events import EventEndpoint
from inference.protocols import GenerationRequest, SamplingParameters
from inference.tracked_generator import TrackedEngine
from tests.engines import MODEL, START_SECONDS, make_engine

pytestmark = pytest.mark.engine

events = pytest.importorskip("vllm.distributed.kv_events")

BLOCK = 32


@dataclass(frozen=True)
class Running:
    client: CompletionsClient
    events: EventEndpoint


@pytest.fixture(scope="module")
def engine(model_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    settings = {"kv_cache_bytes": 64 * 1024 * 1024, "max_model_len": 1024}
    with tempfile.TemporaryDirectory(prefix="kv") as folder:  # its name must be short
        events = EventEndpoint.of(f"ipc://{folder}/kv")
        process = make_engine(model_cache, tmp_path_factory.mktemp("engine"), settings, kv_events=events)
        process.start()
        try:
            process.wait_ready(timeout_seconds=START_SECONDS)
            client = CompletionsClient(process.url, model=MODEL, revision="test")
            yield Running(client, events)
            client.close()
        finally:
            process.stop()


@contextmanager
def following(engine: Running) -> Iterator[TrackedEngine]:
    """As a worker does."""
    tracked = TrackedEngine(engine.client, events=engine.events)
    try:
        until = time.monotonic() + 20
        while not tracked.prefixes.is_exact:
            assert time.monotonic() < until
            time.sleep(0.05)
        yield tracked
    finally:
        tracked.stop_following()


def prompt(num_blocks: int) -> list[int]:
    return [random.randrange(1000, 40_000) for _ in range(num_blocks * BLOCK + 1)]


def ask(generator: CompletionsClient | TrackedEngine, tokens: list[int], salt: str) -> int:
    """Cached tokens of the prompt, as the engine counts them."""
    request = GenerationRequest(tuple(tokens), SamplingParameters(max_tokens=2), cache_salt=salt)
    with generator.stream(request) as deltas:
        return list(deltas)[-1].usage.cached_tokens


def agree(tracked: TrackedEngine, tokens: list[int], salt: str) -> int:
    """Cached tokens, which were expected before."""
    time.sleep(0.3)  # a message may come after the answer
    assert tracked.prefixes.is_exact
    expected = tracked.prefixes.num_cached(salt, tokens)
    assert ask(tracked, tokens, salt) == expected
    return expected


def test_predictions_are_exact_whoever_asked_and_whatever_was_evicted(engine: Running) -> None:
    first, second = prompt(8), prompt(8)
    ask(engine.client, first, "a")  # before anybody follows
    with following(engine) as tracked:
        assert agree(tracked, first, "a") == 8 * BLOCK
        assert agree(tracked, first, "b") == 0  # of another tenant
        ask(engine.client, second, "b")  # another process
        assert agree(tracked, [*second[:160], *prompt(3)], "b") == 5 * BLOCK
        # The last block is computed twice, and kept twice.
        assert agree(tracked, second[:256], "b") == 7 * BLOCK

        # The engine has room for some 45 blocks.
        ask(engine.client, prompt(20), "c")
        agree(tracked, first, "a")
        ask(engine.client, prompt(25), "c")
        agree(tracked, second, "b")
        for _ in range(2):
            ask(engine.client, prompt(30), "c")
        assert agree(tracked, first, "a") == 0
        assert agree(tracked, first, "a") == 8 * BLOCK

        engine.client.reset_prefix_cache()
        ask(engine.client, prompt(1), "c")  # vLLM tells of a reset with its next step
        assert agree(tracked, first, "a") == 0
        assert agree(tracked, first, "a") == 8 * BLOCK


def test_messages_are_read_as_vllm_writes_them() -> None:
    block = events.BlockStored(
        [b"x", b"y"], None, list(range(2 * BLOCK)), BLOCK, None, "GPU", None, [("t",), None], 0
    )
    gone = events.BlockRemoved([b"x"], "GPU", 0)
    batch = events.KVEventBatch(ts=1.0, events=[block, gone, events.AllBlocksCleared()], data_parallel_rank=0)
    told = decode_batch(msgspec.msgpack.encode(batch), block_tokens=BLOCK)
    assert told == [
        BlocksStored([b"x", b"y"], None, list(range(2 * BLOCK)), ["t", ""]),
        BlocksRemoved([b"x"]),
        AllCleared(),
    ]
