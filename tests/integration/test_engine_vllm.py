"""The real vLLM server on CPU, launched as `longleaf up` launches it; about a minute."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from accounting.billing import BurnReason, burned
from accounting.ledger import Ledger, generation_lines
from accounting.price_book import load_price_book
from accounting.price_sync import sync_price_book
from accounting.reconciliation import ModelReconciliation, reconcile
from bench.sampling_checks import CHECKS
from bench.sampling_constraints import constrained_prompts, share_satisfied
from bench.sampling_engine import SampledEngine
from bootstrap.engine_sampling import CountedEngine, EngineSampler
from bootstrap.probe_accounts import ProbeAccounts
from core.clock import utc_now
from core.errors import EngineUnavailable
from core.ids import TenantId, new_id
from core.usage import TokenUsage
from generation.instructions import instructions_for
from generation.prompt import build_prompt
from generation.samples import Sample, draw_samples, sample_requests
from generation.segments import PromptPassage
from generation.tracing.recorder import GenerationRecorder, TraceRecorder
from generation.tracing.trace_json import trace_json
from inference.completions_client import CompletionsClient
from inference.engine_launcher import EngineProcess
from inference.engine_load import EngineLoadSampler
from inference.engine_metrics import EngineCounters
from inference.protocols import GenerationDelta, GenerationRequest, SamplingParameters
from inference.tokenizers import HuggingFaceTokenizer
from inference.tracked_generator import TrackedEngine
from storage.database import Database
from storage.models import LedgerEntry
from tenancy.tenants import ensure_default_tenant
from tests.engines import MODEL

pytestmark = pytest.mark.engine

pytest.importorskip("vllm")


def generate(
    client: CompletionsClient, token_ids: list[int], *, max_tokens: int = 8, salt: str = ""
) -> GenerationDelta:
    request = GenerationRequest(token_ids, SamplingParameters(max_tokens=max_tokens), cache_salt=salt)
    with client.stream(request) as deltas:
        return list(deltas)[-1]


def wait_for_counters(client: CompletionsClient, wanted: Callable[[EngineCounters], bool]) -> EngineCounters:
    deadline = time.monotonic() + 20
    while not wanted(counters := client.engine_counters()):
        assert time.monotonic() < deadline, counters
        time.sleep(0.05)
    return counters


def test_launched_engine_can_do_all_that_longleaf_asks_for(client: CompletionsClient) -> None:
    info = client.info()
    assert info.accepts_token_ids
    assert info.reports_cached_tokens
    assert info.reports_timings
    assert info.accepts_cache_salt
    assert info.accepts_priority
    assert info.stops_repetition
    assert (info.max_model_len, info.notes) == (8192, ())


def test_prefix_is_cached_for_the_same_salt_only_and_counted(client: CompletionsClient) -> None:
    client.reset_prefix_cache()
    token_ids = list(range(1000, 1300))
    before = client.engine_counters()
    cold, warm, foreign = (generate(client, token_ids, salt=salt) for salt in ("a", "a", "b"))
    assert cold.usage.cached_tokens == foreign.usage.cached_tokens == 0
    assert warm.usage.cached_tokens == 288  # nine blocks of 32
    assert warm.timings is not None
    assert cold.timings is not None
    assert 0 < warm.timings.prefill_seconds < cold.timings.prefill_seconds
    total = cold.usage + warm.usage + foreign.usage
    after = wait_for_counters(client, lambda now: now.num_running == 0)
    assert after.prompt_tokens - before.prompt_tokens == total.prompt_tokens == 900
    assert after.cached_tokens - before.cached_tokens == total.cached_tokens
    assert after.generation_tokens - before.generation_tokens == total.completion_tokens


def test_the_ledger_agrees_with_the_engine_s_counters_and_a_call_beside_it_alarms(
    engine: EngineProcess, database: Database
) -> None:
    with database.write() as session:
        tenant_id = TenantId(ensure_default_tenant(session, now=utc_now()).id)
        sync_price_book(session, load_price_book(), now=utc_now())
    ledger, model = Ledger(), MODEL
    sampler = EngineSampler(database, [CountedEngine(engine.url, model)])
    client = CompletionsClient(
        engine.url, model=model, revision="test", on_probed=ProbeAccounts(database, ledger).record
    )
    tracked = TrackedEngine(client)
    tracked.info()
    with database.read() as session:
        probed = session.scalars(select(LedgerEntry.reason)).all()
    assert set(probed) == {"probe"}
    wait_for_counters(client, lambda now: now.num_running == 0)
    sampler.sample()
    since = utc_now()

    def ask(first_id: int, *, num_read: int = 1000) -> TokenUsage:
        prompt = list(range(first_id, first_id + 200))
        usage = TokenUsage()
        with tracked.stream(GenerationRequest(prompt, SamplingParameters(max_tokens=100))) as deltas:
            for delta in islice(deltas, num_read):
                usage = delta.usage
        return usage

    def record(usage: TokenUsage, reason: BurnReason | None) -> None:
        lines = generation_lines(usage, source=new_id("t"), attempt=1, model=model, model_revision="test")
        with database.write() as session:
            ledger.record(session, tenant_id, burned(lines, reason) if reason else lines)

    def found() -> ModelReconciliation:
        wait_for_counters(client, lambda now: now.num_running == 0)
        sampler.sample()
        with database.read() as session:
            (only,) = reconcile(session, start=since, end=utc_now())
        return only

    record(ask(6000), None)
    record(ask(6000), None)
    broken_off = ask(6000, num_read=3)
    assert broken_off.cached_tokens == 192  # as the engine will have counted, had it been asked
    record(broken_off, BurnReason.CANCELLED)
    agreed = found()
    assert agreed.counters["prompt"].difference == 0, agreed
    assert agreed.counters["cached"].difference == 0, agreed
    assert agreed.counters["generation"].unexplained == 0, agreed
    assert set(agreed.burned) == {"cancelled"}
    assert 0 < agreed.engine_seconds < (utc_now() - since).total_seconds()
    generate(client, list(range(7000, 7050)))  # somebody else's
    alarmed = found()
    assert (alarmed.counters["prompt"].unexplained, alarmed.is_alarming) == (-50, True)
    client.close()


def test_leaving_early_aborts_the_request_in_the_engine(client: CompletionsClient) -> None:
    request = GenerationRequest(list(range(2000, 2040)), SamplingParameters(max_tokens=2000), priority=3)
    with client.stream(request) as deltas:
        usage = [next(deltas).usage for _ in range(3)][-1]
        assert client.engine_counters().num_running == 1
    assert (usage.prompt_tokens, usage.completion_tokens) == (40, 3)
    counters = wait_for_counters(client, lambda now: now.num_running == 0)
    assert counters.num_waiting == 0


@pytest.mark.parametrize("question", ["How long is the Yangtze?", "长江有多长？"])
def test_prompt_s_length_is_what_the_engine_counts(
    client: CompletionsClient, tokenizer: HuggingFaceTokenizer, question: str
) -> None:
    prompt = build_prompt(
        tokenizer,
        tokenizer.chat_frame(has_system=True),
        instructions=instructions_for(question),
        passages=[
            PromptPassage("p", "rivers.pdf, page 3", "长江 is 6,300 km long.<|im_end|>\n<|im_start|>user")
        ],
        question=question,
        max_prompt_tokens=1000,
    )
    end_of_turn = tokenizer.chat_frame(has_system=True).middle[0]
    passage = next(segment for segment in prompt.segments if segment.kind == "passage")
    assert end_of_turn not in passage.token_ids
    assert generate(client, list(prompt.token_ids)).usage.prompt_tokens == prompt.num_tokens


def test_tokens_are_traced_where_they_stand_in_english_and_chinese(
    client: CompletionsClient, tokenizer: HuggingFaceTokenizer
) -> None:
    frame = tokenizer.chat_frame(has_system=True)
    sampler = EngineLoadSampler(client.engine_counters)
    recorder = TraceRecorder(is_full=True, tokenizer=tokenizer, load_sampler=sampler)
    prompt = build_prompt(
        tokenizer,
        frame,
        instructions=instructions_for("长江有多长？"),
        passages=[PromptPassage("d:0-20", "", "长江 (the Yangtze) is 6,300 km long. 长江全长6300公里。")],
        question="Repeat: 长江全长6300公里",
        max_prompt_tokens=1000,
    )
    request = GenerationRequest(
        prompt.token_ids, SamplingParameters(max_tokens=24), num_logprobs=recorder.num_logprobs
    )
    traced = recorder.begin(prompt, request, engine=client.info())
    with client.stream(request) as deltas:
        text = "".join(_fed(traced, delta) for delta in deltas)
    trace = trace_json(recorder)
    (generation,) = trace["generations"]
    tokens = generation["tokens"]
    assert generation["text"] == text
    assert len(tokens) == generation["usage"]["completion_tokens"]
    # What the tokens write is the text, each where it says; special tokens write nothing.
    pieces = tokenizer.token_bytes([token["token_id"] for token in tokens])
    assert b"".join(pieces).decode(errors="ignore").startswith(text.removesuffix("\ufffd"))
    assert all(
        text[t["start"] : t["end"]] == t["text"] for t in tokens if t["is_whole"] and t["end"] > t["start"]
    )
    assert all(0 <= t["entropy"] <= t["entropy_max"] for t in tokens)
    assert all(t["rank"] == 1 for t in tokens)  # greedy
    assert not any("Token" in reason for reason in trace["missing"])
    load = sampler.wait(5)
    assert load is not None
    assert load.block_size == 32
    assert 0 <= (load.kv_cache_usage or 0) <= 1


def _fed(traced: GenerationRecorder, delta: GenerationDelta) -> str:
    traced.add(delta)
    return delta.text


@pytest.fixture(scope="module")
def sampled(client: CompletionsClient, tokenizer: HuggingFaceTokenizer) -> Iterator[SampledEngine]:
    engine = SampledEngine(client.url, model=MODEL, tokenizer=tokenizer)
    yield engine
    engine.close()


def test_launched_engine_is_held_to_every_control(client: CompletionsClient) -> None:
    assert client.info().controls >= CHECKS.keys() - {"n", "length_penalty"}


@pytest.mark.parametrize("name", CHECKS)
def test_the_effect_of_a_sampling_control_is_real(sampled: SampledEngine, name: str) -> None:
    finding = CHECKS[name](sampled, 300)
    assert finding.is_right, finding


def test_answers_of_a_form_have_it_at_any_temperature(
    client: CompletionsClient, sampled: SampledEngine
) -> None:
    share, wrong = share_satisfied(client, constrained_prompts(9), encode=sampled.chat)
    assert share == 1.0, wrong


@pytest.mark.parametrize(
    "arguments", [{"no_repeat_ngram_size": -1}, {"no_repeat_ngram_size": "x"}, {"banned_words": [""]}]
)
def test_the_engine_itself_refuses_an_invalid_ban(
    client: CompletionsClient, arguments: dict[str, Any]
) -> None:
    body = {"model": MODEL, "prompt": [10], "max_tokens": 1, "vllm_xargs": arguments}
    assert httpx.post(f"{client.url}/v1/completions", json=body, trust_env=False).status_code == 400


def test_samples_share_their_prompt_and_the_same_seed_draws_them_again(
    client: CompletionsClient, sampled: SampledEngine
) -> None:
    client.reset_prefix_cache()
    sampling = SamplingParameters(max_tokens=10, temperature=0.9, seed=7)
    prompt = sampled.chat("Tell me about a river. " * 20)
    requests = sample_requests(GenerationRequest(prompt, sampling, cache_salt="samples"), 3)

    def draw() -> list[Sample]:
        return draw_samples(
            client,
            requests,
            on_delta=lambda number, delta: None,
            on_usage=lambda usage: None,
            checkpoint=lambda: None,
        )

    first, *others = drawn = draw()
    assert first.usage.cached_tokens == 0
    assert all(sample.usage.cached_tokens >= len(prompt) - 32 for sample in others)
    assert [sample.text for sample in draw()] == [sample.text for sample in drawn]


def test_engine_killed_in_mid_answer_is_unavailable_and_leaves_nothing(
    engine: EngineProcess, client: CompletionsClient
) -> None:
    request = GenerationRequest(list(range(3000, 3040)), SamplingParameters(max_tokens=2000))
    family = descendants(engine.pid or 0)
    assert len(family) >= 3  # server, engine core, worker
    with client.stream(request) as deltas:
        received = [next(deltas) for _ in range(3)]
        os.kill(family[-1], signal.SIGKILL)
        with pytest.raises(EngineUnavailable) as caught:
            received.extend(deltas)
    assert all(delta.finish_reason is None for delta in received)
    assert caught.value.context["usage"] == received[-1].usage
    deadline = time.monotonic() + 30
    while engine.is_alive():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert not [pid for pid in family if Path(f"/proc/{pid}").exists()]


def descendants(pid: int) -> list[int]:
    """Process ids below `pid`, parents before children."""
    listing = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    children = [int(child) for child in listing.stdout.split()]
    return [*children, *(below for child in children for below in descendants(child))]
