"""What vLLM is started with."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import Misconfigured
from core.settings import EngineSettings
from inference.controls import NO_REPEAT_PROCESSOR
from inference.engine_profiles import EngineCommand, Machine, bind_threads, cpu_list, engine_command

FOLDER = Path("/models/qwen")
MACHINE = Machine(cpu_ids=(0, 1), has_bf16_tiles=False, openmp_library=Path("/lib/libiomp5.so"))


def command(*, profile: str = "cpu", machine: Machine = MACHINE, **fields: object) -> EngineCommand:
    settings = EngineSettings(**fields)  # type: ignore[arg-type]
    return engine_command(settings, model_folder=FOLDER, profile=profile, machine=machine)  # type: ignore[arg-type]


def option(command: EngineCommand, name: str) -> str:
    return command.argv[len(command.argv) - 1 - command.argv[::-1].index(name) + 1]


@pytest.mark.parametrize(
    ("cpu_ids", "text"), [((0, 1), "0-1"), ((3,), "3"), ((5, 0, 1, 2), "0-2,5"), ((0, 2, 4, 5), "0,2,4-5")]
)
def test_cpu_list_is_in_the_kernel_s_notation(cpu_ids: tuple[int, ...], text: str) -> None:
    assert cpu_list(cpu_ids) == text


def test_workers_share_the_cpus_evenly() -> None:
    assert bind_threads((0, 1, 4, 5), num_workers=2) == "0-1|4-5"
    with pytest.raises(Misconfigured, match="2 tensor-parallel workers do not fit 1 CPU"):
        bind_threads((0,), num_workers=2)


def test_cpu_profile_uses_what_was_measured_to_be_fast() -> None:
    started = command(kv_cache_bytes=100 * 1024 * 1024)
    assert option(started, "--dtype") == "float32"
    assert option(started, "--block-size") == "32"
    assert option(started, "--kv-cache-memory-bytes") == "104857600"
    assert "--enforce-eager" in started.argv
    assert started.environment["VLLM_CPU_OMP_THREADS_BIND"] == "0-1"
    assert started.environment["LD_PRELOAD"] == "/lib/libiomp5.so"
    # A value from outside would override --kv-cache-memory-bytes.
    assert started.environment["VLLM_CPU_KVCACHE_SPACE"] is None


def test_matrix_units_switch_to_bf16_and_a_missing_library_is_not_preloaded() -> None:
    started = command(machine=Machine((0,), has_bf16_tiles=True, openmp_library=None), eager=False)
    assert option(started, "--dtype") == "bfloat16"
    assert "LD_PRELOAD" not in started.environment
    assert "--enforce-eager" not in started.argv


def test_gpu_profile_has_no_cpu_settings() -> None:
    started = command(profile="gpu", tensor_parallel_size=2, gpu_memory_utilization=0.8)
    assert option(started, "--tensor-parallel-size") == "2"
    assert option(started, "--gpu-memory-utilization") == "0.8"
    assert option(started, "--dtype") == "auto"
    assert not {"--block-size", "--enforce-eager"} & set(started.argv)
    assert "VLLM_CPU_OMP_THREADS_BIND" not in started.environment


@pytest.mark.parametrize("profile", ["cpu", "gpu"])
def test_every_profile_serves_what_the_client_relies_on(profile: str) -> None:
    started = command(profile=profile, model="qwen3-8b", port=9000, max_model_len=4096)
    assert option(started, "--model") == str(FOLDER)
    assert option(started, "--served-model-name") == "qwen3-8b"
    assert option(started, "--port") == "9000"
    assert option(started, "--max-model-len") == "4096"
    assert option(started, "--scheduling-policy") == "priority"
    assert {"--enable-prompt-tokens-details", "--enable-per-request-metrics"} <= set(started.argv)
    assert started.environment["HF_HUB_OFFLINE"] == "1"
    assert started.environment["VLLM_NO_USAGE_STATS"] == started.environment["DO_NOT_TRACK"] == "1"
    assert started.environment["VLLM_SERVER_DEV_MODE"] is None


def test_extra_arguments_win_and_the_key_stays_off_the_command_line() -> None:
    started = command(extra_args=["--dtype", "float16"], api_key="secret")
    assert option(started, "--dtype") == "float16"
    assert started.environment["VLLM_API_KEY"] == "secret"
    assert "secret" not in " ".join(started.argv)


def test_n_grams_are_banned_by_a_processor_of_ours_unless_the_engine_speculates() -> None:
    assert option(command(), "--logits-processors") == NO_REPEAT_PROCESSOR
    speculating = command(extra_args=["--speculative-config", '{"method": "ngram"}'])
    assert "--logits-processors" not in speculating.argv  # vLLM would not start
