"""The KV store inside a real vLLM on CPU, over a restart; about two minutes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from core.settings import EngineSettings
from inference.completions_client import CompletionsClient
from inference.kv_store.block_store import usage
from inference.kv_store.engine_flags import kv_store_flags
from inference.kv_store.kept_text import KeptText
from inference.protocols import GenerationRequest, SamplingParameters
from tests.engines import MODEL, START_SECONDS, make_engine

pytestmark = pytest.mark.engine

pytest.importorskip("vllm")

BLOCK = 32  # tokens
DOCUMENT = [500 + (37 * i) % 20_000 for i in range(1000)]  # 31 whole blocks and a rest
QUESTION = [101, 202, 303, 404, 505]
STATIC_TOKENS = len(DOCUMENT) // BLOCK * BLOCK


@dataclass
class Answered:
    text: str
    logprobs: list[float]
    cached_tokens: int


class Engine:
    """One store, and an engine over it that can be started again."""

    def __init__(self, folder: Path, model_cache: Path) -> None:
        self.folder = folder / "kv"
        settings = {"kv_cache_bytes": 512 * 1024**2}
        self.process = make_engine(model_cache, folder, settings, kv_store_dir=self.folder)
        self.start()

    def start(self) -> None:
        self.process.start()
        self.process.wait_ready(timeout_seconds=START_SECONDS)

    def restart(self) -> None:
        self.process.stop()
        self.start()

    def forget(self) -> None:
        """Leave the store as the only place where blocks are."""
        client = CompletionsClient(self.process.url, model=MODEL)
        client.reset_prefix_cache()
        client.close()

    def ask(self, prompt: list[int], *, salt: str = "tenant", keep: int | None = None) -> Answered:
        body: dict[str, Any] = {"model": MODEL, "prompt": prompt, "max_tokens": 12, "temperature": 0}
        body |= {"logprobs": 1, "cache_salt": salt}
        if keep is not None:
            body["kv_transfer_params"] = KeptText(keep, "doc_1").as_json()
        answer = httpx.post(f"{self.process.url}/v1/completions", json=body, timeout=300, trust_env=False)
        assert answer.status_code == 200, answer.text
        choice, usage_ = answer.json()["choices"][0], answer.json()["usage"]
        details = usage_["prompt_tokens_details"] or {"cached_tokens": 0}
        return Answered(choice["text"], choice["logprobs"]["token_logprobs"], details["cached_tokens"])

    def counted(self, event: str) -> float:
        text = httpx.get(f"{self.process.url}/metrics", trust_env=False).text
        lines = [line for line in text.splitlines() if line.startswith("longleaf:kv_store_blocks_total{")]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if f'event="{event}"' in line)

    def wait_for_blocks(self, number: int) -> None:
        wait_until(lambda: usage(self.folder).num_blocks >= number)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def engine(model_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine = Engine(tmp_path_factory.mktemp("kv"), model_cache)
    try:
        yield engine
    finally:
        engine.process.stop()


def same(first: Answered, second: Answered) -> bool:
    return first.text == second.text and first.logprobs == pytest.approx(second.logprobs, abs=2e-4)


def test_static_text_is_computed_once_for_all_restarts_and_read_exactly(engine: Engine) -> None:
    prompt = DOCUMENT + QUESTION
    cold = engine.ask(prompt)
    assert cold.cached_tokens == 0
    assert usage(engine.folder).num_blocks == 0  # not marked, so nothing is written

    engine.ask(prompt, keep=len(DOCUMENT))  # computed already, and kept now
    engine.wait_for_blocks(STATIC_TOKENS // BLOCK)
    assert usage(engine.folder).num_blocks == STATIC_TOKENS // BLOCK
    engine.forget()
    loaded = engine.ask(prompt)
    assert (loaded.cached_tokens, same(loaded, cold)) == (STATIC_TOKENS, True)

    engine.restart()
    again = engine.ask(prompt)
    assert (again.cached_tokens, same(again, cold)) == (STATIC_TOKENS, True)
    other_question = engine.ask([*DOCUMENT, 777, 888])
    assert other_question.cached_tokens >= STATIC_TOKENS

    foreign = engine.ask(prompt, salt="another tenant")
    assert (foreign.cached_tokens, same(foreign, cold)) == (0, True)
    assert usage(engine.folder).num_blocks == STATIC_TOKENS // BLOCK


def test_a_damaged_block_is_computed_again_and_mended(engine: Engine) -> None:
    prompt = [*DOCUMENT, *QUESTION, 9]
    before = engine.ask(prompt, keep=len(DOCUMENT))
    engine.wait_for_blocks(STATIC_TOKENS // BLOCK)
    engine.forget()
    newest_first = sorted(engine.folder.glob("*/*/*.0"), key=lambda path: -path.stat().st_mtime_ns)
    engine.ask(prompt)  # loading puts the files' times in the order of the text
    engine.forget()
    newest_first = sorted(newest_first, key=lambda path: -path.stat().st_mtime_ns)
    damaged = newest_first[10]
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 0xFF
    damaged.write_bytes(content)
    os.utime(damaged, (1, 1))

    after = engine.ask(prompt, keep=len(DOCUMENT))
    assert same(after, before)
    assert after.cached_tokens == 10 * BLOCK  # usage does not claim what had to be computed
    engine.wait_for_blocks(STATIC_TOKENS // BLOCK)
    wait_until(lambda: engine.counted("written") >= 1)
    assert engine.counted("load_failed") >= 1
    engine.forget()
    mended = engine.ask(prompt)
    assert (mended.cached_tokens, same(mended, before)) == (STATIC_TOKENS, True)


def test_nothing_is_kept_of_what_was_computed_over_a_damaged_block(engine: Engine) -> None:
    """The end of a document was evicted, and a block of its beginning is damaged: in one step that
    block fails to load and the end is computed over it."""
    prompt = [*DOCUMENT, *QUESTION, 10]
    others = usage(engine.folder).num_blocks
    before = engine.ask(prompt, salt="spoilt", keep=len(DOCUMENT))
    engine.wait_for_blocks(others + STATIC_TOKENS // BLOCK)
    engine.forget()
    engine.ask(prompt, salt="spoilt")  # loading puts the files' times in the order of the text
    files = sorted(engine.folder.glob("*/*/*.0"), key=lambda path: -path.stat().st_mtime_ns)
    damaged, *evicted = files[10], *files[20 : STATIC_TOKENS // BLOCK]
    damaged.write_bytes(damaged.read_bytes()[::-1])
    for path in evicted:
        path.unlink()
    engine.forget()
    for _ in range(2):  # with the second question whatever the first one did not dare to keep
        assert same(engine.ask(prompt, salt="spoilt", keep=len(DOCUMENT)), before)
    wait_until(lambda: all(path.exists() for path in (damaged, *evicted)))
    engine.forget()
    loaded = engine.ask(prompt, salt="spoilt")
    assert (loaded.cached_tokens, same(loaded, before)) == (STATIC_TOKENS, True)


def test_the_client_finds_out_that_the_engine_keeps_context(engine: Engine) -> None:
    client = CompletionsClient(engine.process.url, model=MODEL)
    try:
        assert client.info().keeps_context
        request = GenerationRequest(
            DOCUMENT + QUESTION,
            SamplingParameters(max_tokens=2),
            cache_salt="client",
            kept=KeptText(len(DOCUMENT), "doc_2"),
        )
        before = usage(engine.folder).num_blocks
        with client.stream(request) as deltas:
            assert list(deltas)[-1].usage.cached_tokens == 0
        engine.wait_for_blocks(before + STATIC_TOKENS // BLOCK)
        engine.forget()
        with client.stream(request) as deltas:
            assert list(deltas)[-1].usage.cached_tokens == STATIC_TOKENS
    finally:
        client.close()


def test_a_folder_that_is_gone_costs_only_the_saving(engine: Engine) -> None:
    moved = engine.folder.rename(engine.folder.with_name("moved"))
    engine.folder.write_text("in the way")
    try:
        engine.forget()
        assert engine.ask(DOCUMENT + QUESTION, keep=len(DOCUMENT)).cached_tokens == 0
        assert engine.ask(DOCUMENT + QUESTION).cached_tokens > 0  # the engine's own cache
    finally:
        engine.folder.unlink()
        moved.rename(engine.folder)


def test_vllm_knows_the_names_in_the_gpu_s_command_line() -> None:
    from vllm.config.kv_transfer import KVTransferConfig
    from vllm.v1.kv_offload.factory import OffloadingSpecFactory
    from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory

    settings = EngineSettings()  # type: ignore[call-arg]
    _, text = kv_store_flags(settings, folder=Path("/kv"), profile="gpu")
    config = KVTransferConfig(**json.loads(text))
    extra = config.kv_connector_extra_config
    assert OffloadingSpecFactory.get_spec_cls(extra).__name__ == "TieringOffloadingSpec"
    assert (
        SecondaryTierFactory.get_tier_class(extra["secondary_tiers"][0]).__name__ == "FileSystemTierManager"
    )
    assert extra["secondary_tiers"][0]["root_dir"] == "/kv/native"
