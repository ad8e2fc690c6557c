"""What vLLM is started with."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from core.errors import Misconfigured
from core.settings import EngineSettings
from inference.controls import LOGITS_PROCESSORS
from inference.engine_profiles import EngineCommand, Machine, bind_threads, cpu_list, engine_command
from inference.kv_events import EventEndpoint
from inference.kv_store.engine_flags import kv_store_flags

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


def test_bans_are_by_processors_of_ours_unless_it_speculates_in_a_way_of_its_own() -> None:
    for started in (command(), command(speculation="off")):
        first = started.argv.index("--logits-processors") + 1
        assert started.argv[first : first + 2] == LOGITS_PROCESSORS
    speculating = command(extra_args=["--speculative-config", '{"method": "suffix"}'])
    assert "--logits-processors" not in speculating.argv  # vLLM would not start


def test_events_of_the_cache_are_published_where_asked_for() -> None:
    assert "--kv-events-config" not in command().argv
    started = engine_command(
        EngineSettings(),  # type: ignore[call-arg]
        model_folder=FOLDER,
        profile="cpu",
        machine=MACHINE,
        kv_events=EventEndpoint.of("ipc:///run/kv"),
    )
    config = json.loads(option(started, "--kv-events-config"))
    assert config["enable_kv_cache_events"] is True
    assert (config["endpoint"], config["replay_endpoint"]) == ("ipc:///run/kv", "ipc:///run/kv.replay")


def kv_config(profile: str, folder: Path | None = Path("/data/kv"), **fields: object) -> Any:
    settings = EngineSettings(**fields)  # type: ignore[arg-type]
    started = engine_command(
        settings,
        model_folder=FOLDER,
        profile=profile,  # type: ignore[arg-type]
        machine=MACHINE,
        kv_store_dir=folder,
    )
    return json.loads(option(started, "--kv-transfer-config"))


def test_on_cpu_our_store_keeps_context_within_its_quota() -> None:
    config = kv_config("cpu", kv_store_bytes=100)
    assert config["kv_connector_module_path"] == "inference.kv_store.connector"
    assert config["kv_load_failure_policy"] == "recompute"
    assert config["kv_connector_extra_config"]["folder"] == "/data/kv"
    assert config["kv_connector_extra_config"]["max_bytes"] == 100


def test_on_gpu_vllm_s_own_tiers_do() -> None:
    config = kv_config("gpu", kv_offload_bytes=100)
    assert config["kv_connector"] == "OffloadingConnector"
    assert config["kv_connector_extra_config"] == {
        "spec_name": "TieringOffloadingSpec",
        "cpu_bytes_to_use": 100,
        "secondary_tiers": [{"type": "fs", "root_dir": "/data/kv/native"}],
    }
    memory_only = kv_config("gpu", kv_store_bytes=0)["kv_connector_extra_config"]
    assert memory_only["spec_name"] == "CPUOffloadingSpec"
    assert "secondary_tiers" not in memory_only


@pytest.mark.parametrize(
    ("profile", "folder", "fields"),
    [
        ("cpu", None, {}),
        ("cpu", Path("/kv"), {"kv_store_bytes": 0}),
        ("gpu", Path("/kv"), {"kv_offload_bytes": 0}),
        ("cpu", Path("/kv"), {"extra_args": ["--kv-transfer-config"]}),
    ],
)
def test_no_context_is_kept_where_none_is_wanted(
    profile: str, folder: Path | None, fields: dict[str, object]
) -> None:
    settings = EngineSettings(**fields)  # type: ignore[arg-type]
    assert kv_store_flags(settings, folder=folder, profile=profile) == ()  # type: ignore[arg-type]


def test_the_engine_imports_our_parts_from_where_this_process_does() -> None:
    first = str(command().environment["PYTHONPATH"]).split(os.pathsep)[0]
    assert Path(first, "inference", "kv_store", "connector.py").is_file()
