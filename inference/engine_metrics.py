"""vLLM's own counters, to reconcile the ledger with and to watch the engine by."""

from __future__ import annotations

import re
from dataclasses import dataclass

_CONFIGURATION = re.compile(r"^vllm:cache_config_info\{([^}]*)\}", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_SAMPLE = re.compile(r"^(vllm:\w+)(?:\{[^}]*\})? (\S+)", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class EngineCounters:
    """Totals since the engine started, and what it works on now."""

    prompt_tokens: int  # cached ones included
    cached_tokens: int
    generation_tokens: int
    prefix_cache_queries: int  # in tokens, as are the hits
    prefix_cache_hits: int
    num_running: int
    num_waiting: int
    num_preemptions: int = 0
    kv_cache_usage: float | None = None  # share of the KV space, from 0 to 1
    kv_cache_tokens: int | None = None
    block_size: int | None = None


@dataclass(frozen=True, slots=True)
class EngineCache:
    """The engine's KV cache as it reports it: `num_blocks` of `block_tokens` tokens."""

    num_blocks: int
    block_tokens: int


def parse_cache(exposition: str) -> EngineCache | None:
    """The cache out of the Prometheus text of `/metrics`; None where the engine does not say."""
    for line in exposition.splitlines():
        if line.startswith("vllm:cache_config_info{"):
            labels = dict(_LABEL.findall(line))
            try:
                return EngineCache(int(labels["num_gpu_blocks"]), int(labels["block_size"]))
            except (KeyError, ValueError):
                return None
    return None


def parse_counters(exposition: str) -> EngineCounters:
    """Counters out of the Prometheus text of `/metrics`, summed over engines and models; absent is 0."""
    sums: dict[str, float] = {}
    for name, value in _SAMPLE.findall(exposition):
        sums[name] = sums.get(name, 0.0) + float(value)

    usage = sums.get("vllm:kv_cache_usage_perc")
    configuration = _CONFIGURATION.search(exposition)
    labels = dict(_LABEL.findall(configuration[1])) if configuration else {}

    def total(name: str) -> int:
        return round(sums.get(f"vllm:{name}", 0.0))

    return EngineCounters(
        prompt_tokens=total("prompt_tokens_total"),
        cached_tokens=total("prompt_tokens_cached_total"),
        generation_tokens=total("generation_tokens_total"),
        prefix_cache_queries=total("prefix_cache_queries_total"),
        prefix_cache_hits=total("prefix_cache_hits_total"),
        num_running=total("num_requests_running"),
        num_waiting=total("num_requests_waiting"),
        num_preemptions=total("num_preemptions_total"),
        kv_cache_usage=usage,
        kv_cache_tokens=_whole(labels.get("kv_cache_size_tokens")),
        block_size=_whole(labels.get("block_size")),
    )


def _whole(label: str | None) -> int | None:
    return int(label) if label and label.isdigit() else None
