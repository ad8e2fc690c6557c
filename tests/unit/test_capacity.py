"""What a model needs, counted as vLLM counts it."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.errors import InvalidInput, ModelUnavailable
from inference.capacity.cpu_speed import FILE, CpuSpeed, known_speed
from inference.capacity.devices import Device, find_gpu
from inference.capacity.kv_cache import kv_bytes_per_token, kv_layout
from inference.capacity.local_gpu import local_gpu
from inference.capacity.plan import PlanRequest, make_plan
from inference.capacity.rates import EngineRates, EngineSample, fit_rates
from inference.capacity.roofline import Roofline, attended, prefill_flops
from inference.capacity.shape import read_config, shape_of
from inference.capacity.weights import StoredWeights, read_stored_weights, weight_bytes

LLAMA_3_8B: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
QWEN_2_5_7B: dict[str, Any] = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": False,
    "sliding_window": 131072,
    "use_sliding_window": False,
}
SMOLLM2_135M: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 576,
    "intermediate_size": 1536,
    "head_dim": 64,
    "num_attention_heads": 9,
    "num_hidden_layers": 30,
    "num_key_value_heads": 3,
    "vocab_size": 49152,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
    "dtype": "float32",
}
GEMMA_3_1B: dict[str, Any] = {
    "model_type": "gemma3_text",
    "hidden_size": 1152,
    "intermediate_size": 6912,
    "head_dim": 256,
    "num_attention_heads": 4,
    "num_hidden_layers": 26,
    "num_key_value_heads": 1,
    "vocab_size": 262144,
    "max_position_embeddings": 32768,
    "sliding_window": 512,
    "sliding_window_pattern": 6,
}
MIXTRAL_8X7B: dict[str, Any] = {
    "model_type": "mixtral",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 32000,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": False,
}
SLOW = Device("slow", 1e12, 1e11, 24 * 1024**3)


@pytest.mark.parametrize(
    ("config", "num_parameters"),
    [
        (LLAMA_3_8B, 8_030_261_248),
        (QWEN_2_5_7B, 7_615_616_512),
        (SMOLLM2_135M, 134_515_008),
        (MIXTRAL_8X7B, 46_702_792_704),
    ],
)
def test_parameters_are_those_of_the_published_model(config: dict[str, Any], num_parameters: int) -> None:
    assert shape_of(config).num_parameters == num_parameters


def test_a_token_meets_only_the_experts_chosen_for_it() -> None:
    shape = shape_of(MIXTRAL_8X7B)
    assert shape.num_active + shape.num_head == pytest.approx(12.7e9, rel=0.01)


def test_grouped_heads_keep_what_few_heads_need() -> None:
    assert kv_bytes_per_token(shape_of(LLAMA_3_8B), dtype="bfloat16") == 131_072
    assert kv_bytes_per_token(shape_of(QWEN_2_5_7B), dtype="fp8") == 28_672
    # Four devices share eight heads; sixteen have to keep one each.
    assert kv_bytes_per_token(shape_of(LLAMA_3_8B), dtype="bfloat16", tensor_parallel=4) == 32_768
    assert kv_bytes_per_token(shape_of(LLAMA_3_8B), dtype="bfloat16", tensor_parallel=16) == 16_384


def test_compressed_attention_keeps_one_state_a_token() -> None:
    config = LLAMA_3_8B | {
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
    }
    assert kv_bytes_per_token(shape_of(config), dtype="bfloat16") == 576 * 2 * 32


def test_blocks_are_those_that_vllm_logs() -> None:
    # vLLM 0.32 on CPU: "KV cache size: 23,296 tokens, Maximum concurrency for 8,192 tokens: 2.84x"
    layout = kv_layout(shape_of(SMOLLM2_135M), dtype="float32", block_tokens=32)
    num_blocks = layout.num_blocks(1024**3)
    assert num_blocks == 728
    assert layout.token_capacity(num_blocks, 8192) == 23_296
    assert layout.num_sequences(num_blocks, 8192) == 2


def test_layers_with_a_window_keep_a_window() -> None:
    shape = shape_of(GEMMA_3_1B)
    assert (shape.num_full_layers, shape.num_window_layers, shape.window) == (4, 22, 512)
    layout = kv_layout(shape, dtype="bfloat16", block_tokens=16, max_in_flight_tokens=2048)
    assert (layout.layers_per_group, layout.full_groups, layout.window_groups) == (4, 1, 6)
    short, long = layout.blocks_of(1024), layout.blocks_of(32_768)
    assert short > 7 * 1024 / 16  # no shorter than its groups
    assert long < 2048 + 6 * (2560 / 16 + 2)  # one group keeps all, six a window and a chunk


def test_a_window_that_is_switched_off_is_none() -> None:
    assert shape_of(QWEN_2_5_7B).num_window_layers == 0


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"hidden_size": None}, "hidden_size"),
        ({"num_hidden_layers": "32"}, "num_hidden_layers"),
        ({"num_attention_heads": 0}, "num_attention_heads"),
        ({"vocab_size": True}, "vocab_size"),
    ],
)
def test_a_config_that_is_no_decoder_is_refused_by_its_field(change: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        shape_of(LLAMA_3_8B | change)


def test_a_folder_without_a_config_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="longleaf models prepare"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(ModelUnavailable, match="no object"):
        read_config(tmp_path)


def test_models_that_also_see_are_read_by_their_text_part() -> None:
    assert shape_of({"model_type": "some_vl", "text_config": LLAMA_3_8B}) == shape_of(LLAMA_3_8B)


def test_heads_must_divide_between_devices() -> None:
    with pytest.raises(InvalidInput, match=r"28 attention heads .* 8 devices"):
        kv_layout(shape_of(QWEN_2_5_7B), dtype="bfloat16", block_tokens=16, tensor_parallel=8)


def test_quantized_weights_keep_embeddings_and_head_as_they_are() -> None:
    shape = shape_of(LLAMA_3_8B)
    plain = weight_bytes(shape, dtype="bfloat16")
    assert plain == 2 * 8_030_261_248
    tables = 2 * 128_256 * 4096
    assert weight_bytes(shape, dtype="bfloat16", quantization="fp8") == pytest.approx(
        2 * tables + (8_030_261_248 - tables), rel=0.001
    )
    assert weight_bytes(shape, dtype="bfloat16", quantization="awq") == pytest.approx(5.7e9, rel=0.02)


def test_files_say_more_exactly_than_a_formula(tmp_path: Path) -> None:
    header = json.dumps(
        {
            "__metadata__": {"format": "pt"},
            "a": {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]},
            "b": {"dtype": "F32", "shape": [5], "data_offsets": [48, 68]},
        }
    ).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(68))
    stored = read_stored_weights(tmp_path)
    assert stored == StoredWeights(num_parameters=17, num_bytes=68)
    assert weight_bytes(shape_of(SMOLLM2_135M), dtype="bfloat16", stored=stored) == 34
    quantized = shape_of(SMOLLM2_135M | {"quantization_config": {"quant_method": "gptq"}})
    assert weight_bytes(quantized, dtype="bfloat16", stored=stored) == 68
    assert read_stored_weights(tmp_path / "nothing") is None


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{broken")
    with pytest.raises(ModelUnavailable, match=r"model\.safetensors is no safetensors file"):
        read_stored_weights(tmp_path)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("h200", "H200"),
        ("NVIDIA A100-SXM4-40GB", "A100 40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB"),
        ("a100", "A100 80GB"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("Tesla T4", "T4"),
    ],
)
def test_gpus_are_known_by_what_people_and_drivers_call_them(name: str, found: str) -> None:
    assert find_gpu(name).name == found


@pytest.mark.parametrize("name", ["", "riva", "rtx"])
def test_an_unknown_gpu_is_refused_with_those_known(name: str) -> None:
    with pytest.raises(InvalidInput, match="H200"):
        find_gpu(name)


def test_the_driver_tells_which_gpu_there_is(tmp_path: Path) -> None:
    assert local_gpu(tmp_path) is None
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "information").write_text("Model: \t\t NVIDIA L40S\nIRQ: 5\n")
    found = local_gpu(tmp_path)
    assert found is not None
    assert found.name == "L40S"


def test_attention_counts_what_each_token_sees() -> None:
    assert attended(4) == 1 + 2 + 3 + 4
    assert attended(4, 2) == 3 + 4
    assert attended(5, window=2) == 1 + 2 + 2 + 2 + 2
    assert attended(7, 7) == 0


def test_prefill_counts_weights_and_attention() -> None:
    shape = shape_of(SMOLLM2_135M)
    weights = 2 * 106_168_320 + 2 * 576 * 49152 / 2400
    expected = 2400 * weights + 4 * 30 * 9 * 64 * 2400 * 2401 / 2
    # Norms are no products: the formula leaves their 35 thousand parameters out.
    assert prefill_flops(shape, 2400) == pytest.approx(expected, rel=1e-6)
    assert prefill_flops(shape, 2400, cached_tokens=2368) < 0.04 * prefill_flops(shape, 2400)


def test_decoding_alone_is_as_fast_as_weights_are_read_and_a_batch_reads_them_once() -> None:
    shape = shape_of(LLAMA_3_8B)
    roofline = Roofline(shape, replace(SLOW, flops=1e15), weight_bytes(shape, dtype="bfloat16"), "bfloat16")
    alone = roofline.decode_seconds(1)
    used = 2 * (8_030_261_248 - 128_256 * 4096)  # the embedding table is looked up, not read
    assert alone == pytest.approx(used / 1e11, rel=0.01)
    assert roofline.decode_seconds(1, num_sequences=16) == pytest.approx(alone, rel=0.01)
    assert roofline.decode_seconds(8000, num_sequences=16) > 1.9 * alone


def request(**fields: Any) -> PlanRequest:
    defaults: dict[str, Any] = {
        "shape": shape_of(LLAMA_3_8B),
        "device": SLOW,
        "context_tokens": 4096,
        "concurrency": 4,
        "dtype": "bfloat16",
    }
    return PlanRequest(**defaults | fields)


def test_what_weights_and_activations_leave_is_the_cache() -> None:
    plan = make_plan(request())
    taken = plan.weight_bytes + plan.reserved_bytes + plan.kv_bytes
    assert taken == round(24 * 1024**3 * 0.9)
    assert plan.num_blocks == plan.kv_bytes // (131_072 * 16)
    assert plan.fits is (plan.num_sequences >= 4)
    assert "estimated" in plan.notes[0]


def test_a_model_that_does_not_fit_says_so_and_quantized_it_does() -> None:
    small = replace(SLOW, memory_bytes=16 * 1024**3)
    plan = make_plan(request(device=small))
    assert (plan.kv_bytes, plan.num_blocks, plan.fits) == (0, 0, False)
    assert any("quantize" in note for note in plan.notes)
    assert make_plan(request(device=small, quantization="awq")).fits


def test_more_callers_than_fit_are_told_what_they_would_need() -> None:
    plan = make_plan(request(kv_bytes=1024**3, concurrency=8))
    assert not plan.fits
    assert any("8 sequences of 4,096 tokens need 4.00 GiB" in note for note in plan.notes)


def test_a_draft_model_takes_weights_and_cache() -> None:
    draft = shape_of(SMOLLM2_135M | {"vocab_size": 128256})
    plain, drafted = make_plan(request()), make_plan(request(draft=draft))
    assert drafted.weight_bytes > plain.weight_bytes
    assert drafted.num_blocks < plain.num_blocks


@pytest.mark.parametrize(
    ("fields", "named"), [({"context_tokens": 9000}, "8,192"), ({"answer_tokens": 4096}, "no room")]
)
def test_what_the_model_cannot_do_is_refused(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        make_plan(request(**fields))


TRUE = EngineRates(0.05, 1e-3, 2e-7, 0.04, 3e-6, 0)


def sample(prompt: int, cached: int = 0, *, slower: float = 1.0) -> EngineSample:
    context = prompt + 32 / 2
    return EngineSample(
        prompt,
        cached,
        32,
        TRUE.ttft_seconds(prompt, cached_tokens=cached) * slower,
        31 * TRUE.tpot_seconds(context),
    )  # fmt: skip


def test_rates_are_found_again_in_what_they_made() -> None:
    rates = fit_rates([sample(p, c) for p, c in ((64, 0), (512, 0), (2048, 0), (4096, 0), (4096, 4064))])
    assert rates is not None
    for prompt, cached in ((256, 0), (3000, 0), (3000, 2900)):
        expected = TRUE.ttft_seconds(prompt, cached_tokens=cached)
        assert rates.ttft_seconds(prompt, cached_tokens=cached) == pytest.approx(expected, rel=0.05)
    assert rates.tpot_seconds(2000) == pytest.approx(TRUE.tpot_seconds(2000), rel=0.05)


def test_requests_that_had_to_wait_do_not_spoil_the_rates() -> None:
    lengths = [100 * i for i in range(1, 20)]
    rates = fit_rates([*(sample(n) for n in lengths), *(sample(n, slower=4.0) for n in lengths[::5])])
    assert rates is not None
    assert rates.ttft_seconds(1500) == pytest.approx(TRUE.ttft_seconds(1500), rel=0.15)


def test_too_few_samples_give_no_rates() -> None:
    assert fit_rates([sample(64), sample(128), sample(256)]) is None


def test_rates_are_never_negative() -> None:
    samples = [
        EngineSample(n, 0, 1, seconds, 0.0) for n, seconds in ((10, 2.0), (20, 1.5), (30, 1.0), (40, 0.5))
    ]
    rates = fit_rates(samples)
    assert rates is not None
    assert min(rates.start_seconds, rates.token_seconds, rates.pair_seconds) >= 0


def test_a_speed_measured_on_another_machine_does_not_count(tmp_path: Path) -> None:
    assert known_speed(tmp_path) is None
    other = CpuSpeed("Another", 64, 1e12, 1e11)
    (tmp_path / FILE).write_text(json.dumps({"processor": "Another", "num_cores": 64, "flops": 1e12, "bytes_per_second": 1e11}))  # fmt: skip
    assert known_speed(tmp_path) is None
    (tmp_path / FILE).write_text("{")
    assert known_speed(tmp_path) is None
    assert other.device().name == "Another, 64 cores"
