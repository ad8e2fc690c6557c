"""Four clients on one long prefix, on a real vLLM that prefills several prompts side by side."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from core.ids import TenantId
from core.settings import LeaderSettings
from core.usage import TokenUsage
from generation.attempt import Attempt
from generation.leading import LeaderFirst
from generation.prompt import Prompt
from generation.segments import Segment
from inference.completions_client import CompletionsClient
from inference.protocols import GenerationRequest, SamplingParameters
from storage.job_run import JobRun
from storage.prefix_leads import PrefixLeads
from tests.engines import MODEL, START_SECONDS, make_engine

pytestmark = pytest.mark.engine

pytest.importorskip("vllm")

NUM_CLIENTS = 4
SHARED_TOKENS, OWN_TOKENS = 2048, 40


@pytest.fixture(scope="module")
def client(model_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CompletionsClient]:
    settings = {
        "kv_cache_bytes": 256 * 1024 * 1024,
        "max_model_len": 4096,
        # A long prompt takes several steps, in which others prefill beside it.
        "extra_args": ["--long-prefill-token-threshold", "128", "--max-num-batched-tokens", "512"],
    }
    process = make_engine(model_cache, tmp_path_factory.mktemp("engine"), settings)
    process.start()
    try:
        process.wait_ready(timeout_seconds=START_SECONDS)
        found = CompletionsClient(process.url, model=MODEL, revision="test")
        yield found
        found.close()
    finally:
        process.stop()


@dataclass
class FakeJob:
    tenant_id: TenantId
    id: str = "job"


def computed_tokens(client: CompletionsClient, leaders: LeaderFirst, salt: str) -> int:
    """Prompt tokens that the engine computed for a burst of questions about one document."""
    shared = Segment("passage", tuple(random.randrange(1000, 40_000) for _ in range(SHARED_TOKENS)))
    computed: list[int] = []

    def ask() -> None:
        own = Segment("question", tuple(random.randrange(1000, 40_000) for _ in range(OWN_TOKENS)))
        tokens = (*shared.token_ids, *own.token_ids)
        job = cast(Any, FakeJob(TenantId(salt)))
        attempt = Attempt(JobRun(job, "me", lambda: None), cast(Any, None), cast(Any, None), time.monotonic())
        request = GenerationRequest(tokens, SamplingParameters(max_tokens=2), cache_salt=salt)
        with (
            leaders.lead(attempt, Prompt(tokens, (shared, own), (), (), 0), engine=client.info()) as lead,
            client.stream(request) as deltas,
        ):
            usage = TokenUsage()
            for delta in deltas:
                lead.first_token()
                usage = delta.usage
        computed.append(usage.prompt_tokens - usage.cached_tokens)

    threads = [threading.Thread(target=ask) for _ in range(NUM_CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(computed) == NUM_CLIENTS
    return sum(computed)


def test_a_burst_computes_its_prefix_once(client: CompletionsClient, redis_url: str) -> None:
    leads = PrefixLeads(redis_url)
    settings = LeaderSettings(min_tokens=512, max_wait_seconds=60)
    without = computed_tokens(client, LeaderFirst(None, settings), "without")
    ours = computed_tokens(client, LeaderFirst(leads, settings), "ours")
    leads.close()
    print(f"computed {ours} of {without} tokens")
    assert ours <= SHARED_TOKENS + NUM_CLIENTS * (OWN_TOKENS + 32)
    assert ours <= 0.5 * without
