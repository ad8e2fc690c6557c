"""What a service profile sets, what settings override, and which contradictions are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from core.errors import Misconfigured
from core.settings import EngineSettings
from inference.engine_checks import published_quantization
from inference.engine_plan import require_room
from inference.engine_profiles import EngineCommand, Machine, engine_command
from inference.service_profiles import Profile, controls_of
from tests.unit.test_capacity import SMOLLM2_135M

MACHINE = Machine(cpu_ids=(0, 1), has_bf16_tiles=False, openmp_library=None)


def command(
    profile: Profile = "cpu", *, machine: Machine = MACHINE, published: str = "", **fields: Any
) -> EngineCommand:
    return engine_command(
        EngineSettings(**fields),
        model_folder=Path("/models/m"),
        profile=profile,
        machine=machine,
        published=published,
    )


def option(command: EngineCommand, name: str) -> str | None:
    return command.argv[command.argv.index(name) + 1] if name in command.argv else None


def speculation(command: EngineCommand) -> dict[str, Any] | None:
    text = option(command, "--speculative-config")
    return json.loads(text) if text else None


@pytest.mark.parametrize("profile", ["cpu", "gpu"])
def test_the_nearer_somebody_waits_the_smaller_steps_and_queues_are(profile: Profile) -> None:
    services = [
        controls_of(EngineSettings(service=service), profile)  # type: ignore[arg-type, call-arg]
        for service in ("interactive", "balanced", "offline")
    ]
    assert [c.max_num_seqs for c in services] == sorted(c.max_num_seqs for c in services)
    batched = [c.max_num_batched_tokens for c in services]
    assert batched == sorted(set(batched))
    interactive, balanced, offline = services
    assert 0 < interactive.max_num_queued_reqs < balanced.max_num_queued_reqs
    assert offline.max_num_queued_reqs == 0  # nothing is refused when nobody waits
    assert interactive.long_prefill_token_threshold > 0
    assert offline.speculation == "off"


def test_limits_reach_the_command_line_and_no_limit_does_not() -> None:
    limited = command(service="interactive")
    assert option(limited, "--max-num-seqs") == "8"
    assert option(limited, "--max-num-batched-tokens") == "512"
    assert option(limited, "--long-prefill-token-threshold") == "256"
    assert option(limited, "--max-num-queued-reqs") == "24"
    assert option(limited, "--max-num-queued-tokens") == "16384"
    unlimited = command(service="offline")
    assert "--max-num-queued-reqs" not in unlimited.argv
    assert "--long-prefill-token-threshold" not in unlimited.argv


def test_a_setting_beats_its_profile_and_zero_takes_a_limit_off() -> None:
    started = command(
        service="interactive", max_num_seqs=4, max_num_batched_tokens=1024, max_num_queued_reqs=0
    )
    assert option(started, "--max-num-seqs") == "4"
    assert option(started, "--max-num-batched-tokens") == "1024"
    assert "--max-num-queued-reqs" not in started.argv
    assert option(started, "--max-num-queued-tokens") == "16384"


def test_n_grams_are_guessed_by_default_on_a_cpu_while_few_answers_are_written() -> None:
    found = speculation(command())
    assert found is not None
    assert found["method"] == "ngram"
    few, many = found["num_speculative_tokens_per_batch_size"]
    assert (few[0], many[1]) == (1, 16)
    assert few[2] == found["num_speculative_tokens"]
    assert many[2] == 0


def test_guesses_that_were_asked_for_are_made_for_any_batch() -> None:
    found = speculation(command(speculation="ngram", num_speculative_tokens=5))
    assert found is not None
    assert found["num_speculative_tokens"] == 5
    assert "num_speculative_tokens_per_batch_size" not in found


def test_speculation_is_off_where_it_is_switched_off_or_not_known_to_win() -> None:
    assert speculation(command(speculation="off")) is None
    assert speculation(command(service="offline")) is None
    assert speculation(command("gpu")) is None


def test_a_draft_model_guesses_on_a_gpu() -> None:
    started = command("gpu", speculation="draft", draft_model="Qwen/Qwen3-0.6B", num_speculative_tokens=6)
    assert speculation(started) == {
        "method": "draft_model",
        "model": "Qwen/Qwen3-0.6B",
        "num_speculative_tokens": 6,
    }
    assert "--logits-processors" not in started.argv


def test_gpu_engines_share_quantize_and_hand_over() -> None:
    started = command(
        "gpu",
        tensor_parallel_size=4,
        quantization="fp8",
        kv_cache_dtype="fp8",
        disaggregation="prefill",
        dtype="bfloat16",
        block_size=32,
    )
    assert option(started, "--tensor-parallel-size") == "4"
    assert option(started, "--quantization") == "fp8"
    assert option(started, "--kv-cache-dtype") == "fp8"
    assert option(started, "--dtype") == "bfloat16"
    assert option(started, "--block-size") == "32"
    transfer = option(started, "--kv-transfer-config")
    assert transfer is not None
    assert json.loads(transfer) == {"kv_connector": "NixlConnector", "kv_role": "kv_producer"}


@pytest.mark.parametrize("name", ["awq", "gptq"])
def test_a_model_s_own_quantization_is_left_to_vllm(name: str) -> None:
    assert "--quantization" not in command("gpu", quantization=name, published=name).argv


@pytest.mark.parametrize(
    ("profile", "fields", "named"),
    [
        ("cpu", {"speculation": "draft", "draft_model": "m"}, "draft model needs a GPU"),
        ("gpu", {"speculation": "draft"}, "no draft model is named"),
        ("gpu", {"draft_model": "m"}, "the speculation is off"),
        ("gpu", {"speculation": "draft", "draft_model": "m", "disaggregation": "decode"}, "do not travel"),
        ("cpu", {"disaggregation": "prefill"}, "needs GPUs"),
        ("cpu", {"quantization": "fp8"}, "need AMX"),
        ("cpu", {"kv_cache_dtype": "bfloat16"}, "LONGLEAF_ENGINE__DTYPE"),
        ("cpu", {"block_size": 16}, "multiples of 32"),
        ("gpu", {"quantization": "awq"}, "published with it"),
        ("gpu", {"quantization": "int8"}, "published with it"),
        ("cpu", {"max_num_seqs": 32, "max_num_queued_reqs": 16}, "admission counts those that run"),
        ("cpu", {"max_num_batched_tokens": 64, "long_prefill_token_threshold": 128}, "of a step that has"),
    ],
)
def test_contradictions_are_refused_with_the_remedy(
    profile: Profile, fields: dict[str, Any], named: str
) -> None:
    with pytest.raises(Misconfigured) as refused:
        command(profile, **fields)
    assert named in str(refused.value)
    assert refused.value.remedy


def test_another_quantization_than_the_model_s_is_refused() -> None:
    with pytest.raises(Misconfigured, match="published with gptq"):
        command("gpu", quantization="awq", published="gptq")


def test_fp8_keys_and_values_need_vectors_of_512_bits() -> None:
    assert option(command(kv_cache_dtype="fp8"), "--kv-cache-dtype") == "fp8"
    with pytest.raises(Misconfigured, match="AVX-512"):
        command(kv_cache_dtype="fp8", machine=replace(MACHINE, has_avx512=False))


def test_the_quantization_is_read_off_the_model(tmp_path: Path) -> None:
    assert published_quantization(tmp_path) == ""
    (tmp_path / "config.json").write_text('{"quantization_config": {"quant_method": "awq"}}')
    assert published_quantization(tmp_path) == "awq"


def test_kv_space_for_less_than_one_sequence_is_refused_with_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SMOLLM2_135M), encoding="utf-8")
    room = partial(require_room, model_folder=tmp_path, machine=MACHINE)
    room(EngineSettings())  # type: ignore[call-arg]
    with pytest.raises(Misconfigured, match="377,487,360 bytes") as refused:
        room(EngineSettings(kv_cache_bytes=256 * 1024 * 1024))  # type: ignore[call-arg]
    assert "MAX_MODEL_LEN" in refused.value.remedy
    room(EngineSettings(kv_cache_bytes=256 * 1024 * 1024, max_model_len=4096))  # type: ignore[call-arg]
    require_room(EngineSettings(), model_folder=tmp_path / "nothing", machine=MACHINE)  # type: ignore[call-arg]
