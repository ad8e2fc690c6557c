"""vLLM's own counters, to reconcile the ledger with and to watch the engine by."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_CONFIGURATION = re.compile(r"^vllm:cache_config_info\{([^}]*)\}", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_STARTED = re.compile(r"^process_start_time_seconds (\S+)", re.MULTILINE)
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
    started_at: float | None = None  # Unix time; a new one is a new process, with an empty cache


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

    usages = [float(v) for name, v in _SAMPLE.findall(exposition) if name == "vllm:kv_cache_usage_perc"]
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
        kv_cache_usage=max(usages, default=None),
        kv_cache_tokens=_whole(labels.get("kv_cache_size_tokens")),
        block_size=_whole(labels.get("block_size")),
        started_at=float(started[1]) if (started := _STARTED.search(exposition)) else None,
    )


def total_counters(counters: Sequence[EngineCounters]) -> EngineCounters:
    """Several engines as one: sums, the fullest cache, and the latest start; of at least one."""
    usages = [each.kv_cache_usage for each in counters if each.kv_cache_usage is not None]
    starts = [each.started_at for each in counters if each.started_at is not None]
    tokens = [each.kv_cache_tokens for each in counters if each.kv_cache_tokens is not None]
    return EngineCounters(
        prompt_tokens=sum(each.prompt_tokens for each in counters),
        cached_tokens=sum(each.cached_tokens for each in counters),
        generation_tokens=sum(each.generation_tokens for each in counters),
        prefix_cache_queries=sum(each.prefix_cache_queries for each in counters),
        prefix_cache_hits=sum(each.prefix_cache_hits for each in counters),
        num_running=sum(each.num_running for each in counters),
        num_waiting=sum(each.num_waiting for each in counters),
        num_preemptions=sum(each.num_preemptions for each in counters),
        kv_cache_usage=max(usages, default=None),
        kv_cache_tokens=sum(tokens) if len(tokens) == len(counters) else None,
        block_size=counters[0].block_size,
        started_at=max(starts, default=None),
    )


def _whole(label: str | None) -> int | None:
    return int(label) if label and label.isdigit() else None
