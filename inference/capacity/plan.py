"""Whether a model, a context and a number of callers fit a device, and how fast that can be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from core.errors import InvalidInput
from inference.capacity.devices import Device
from inference.capacity.dtypes import bytes_of
from inference.capacity.kv_cache import KvLayout, kv_bytes_per_token, kv_layout
from inference.capacity.rates import EngineRates
from inference.capacity.roofline import Roofline
from inference.capacity.shape import ModelShape
from inference.capacity.weights import StoredWeights, weight_bytes

# What a follow-up question on a cached prefix adds to it: the question and its frame.
_FOLLOW_UP_TOKENS = 64
# CUDA context, NCCL's buffers and what the allocator cannot use; measured ones differ by driver.
_CONTEXT_BYTES = 700 * 1024**2
_NCCL_BYTES = 400 * 1024**2
_8BIT = frozenset({"fp8", "int8"})


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What is to run where.

    Args:
        kv_dtype: of the cache; `auto` is that of the model.
        kv_bytes: room for the cache, where it is set and does not follow from the device's memory.
        utilization: share of a GPU's memory that the engine may take.
        cuda_graphs: whether decode steps are captured, which takes memory.
        draft, draft_stored: a draft model beside it.
    """

    shape: ModelShape
    device: Device
    context_tokens: int
    concurrency: int
    dtype: str
    answer_tokens: int = 300
    stored: StoredWeights | None = None
    kv_dtype: str = "auto"
    quantization: str = ""
    tensor_parallel: int = 1
    block_tokens: int = 16
    kv_bytes: int | None = None
    utilization: float = 0.9
    max_num_batched_tokens: int = 2048
    max_num_seqs: int = 16
    cuda_graphs: bool = True
    draft: ModelShape | None = None
    draft_stored: StoredWeights | None = None

    @property
    def resolved_kv_dtype(self) -> str:
        return self.dtype if self.kv_dtype == "auto" else self.kv_dtype


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds, for a prompt that leaves room for the answer in the context.

    `cached_ttft_seconds`: all but a short question of the prompt is in the cache. `tpot_seconds`: of
    one caller alone; `loaded_tpot_seconds`: with all callers at once.
    """

    ttft_seconds: float
    cached_ttft_seconds: float
    tpot_seconds: float
    loaded_tpot_seconds: float | None = None
    tokens_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class CapacityPlan:
    """Bytes are of one device. `bound` cannot be beaten; `measured` is what this engine was seen to do."""

    device: str
    num_devices: int
    num_parameters: int
    weight_bytes: int
    reserved_bytes: int
    kv_bytes: int
    kv_bytes_per_token: int
    block_tokens: int
    num_blocks: int
    kv_tokens: int
    context_tokens: int
    concurrency: int
    num_sequences: int
    fits: bool
    bound: Speed
    measured: Speed | None = None
    notes: tuple[str, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def make_plan(request: PlanRequest, rates: EngineRates | None = None) -> CapacityPlan:
    """The plan.

    Raises:
        InvalidInput: the context exceeds what the model was made for, the answer leaves no room for a
            prompt, or heads cannot be shared out between so many devices.
    """
    _check(request)
    layout = kv_layout(
        request.shape,
        dtype=request.resolved_kv_dtype,
        block_tokens=request.block_tokens,
        tensor_parallel=request.tensor_parallel,
        max_in_flight_tokens=request.max_num_batched_tokens,
    )
    weights = _weights_per_device(request)
    reserved = _reserved_bytes(request) if request.device.is_gpu else 0
    kv_bytes = _kv_bytes(request, weights, reserved)
    num_blocks = kv_bytes // (layout.bytes_per_block + _draft_block_bytes(request))
    num_sequences = layout.num_sequences(num_blocks, request.context_tokens)
    fits = num_sequences >= request.concurrency
    return CapacityPlan(
        device=request.device.name,
        num_devices=request.tensor_parallel,
        num_parameters=request.stored.num_parameters if request.stored else request.shape.num_parameters,
        weight_bytes=weights,
        reserved_bytes=reserved,
        kv_bytes=kv_bytes,
        kv_bytes_per_token=kv_bytes_per_token(
            request.shape, dtype=request.resolved_kv_dtype, tensor_parallel=request.tensor_parallel
        ),
        block_tokens=request.block_tokens,
        num_blocks=num_blocks,
        kv_tokens=layout.token_capacity(num_blocks, request.context_tokens),
        context_tokens=request.context_tokens,
        concurrency=request.concurrency,
        num_sequences=num_sequences,
        fits=fits,
        bound=_bound(request),
        measured=None if rates is None else _measured(request, rates),
        notes=tuple(_notes(request, layout, num_blocks, num_sequences)),
    )


def _check(request: PlanRequest) -> None:
    if request.context_tokens > request.shape.max_position:
        raise InvalidInput(
            f"A context of {request.context_tokens:,} tokens exceeds the model's {request.shape.max_position:,}.",
            remedy="Plan for a shorter one, or for a model with a longer window.",
            max_position=request.shape.max_position,
        )
    if request.answer_tokens >= request.context_tokens:
        raise InvalidInput(
            f"An answer of {request.answer_tokens:,} tokens leaves no room in a context of "
            f"{request.context_tokens:,}.",
            remedy="Plan for a longer context or a shorter answer.",
        )


def _weights_per_device(request: PlanRequest) -> int:
    total = weight_bytes(
        request.shape, dtype=request.dtype, quantization=request.quantization, stored=request.stored
    )
    if request.draft is not None:
        total += weight_bytes(request.draft, dtype=request.dtype, stored=request.draft_stored)
    return -(-total // request.tensor_parallel)


def _draft_block_bytes(request: PlanRequest) -> int:
    """What a draft model keeps of a block's tokens, in a cache of the same blocks."""
    if request.draft is None:
        return 0
    kept = kv_bytes_per_token(request.draft, dtype=request.resolved_kv_dtype)
    return kept * request.block_tokens


def _reserved_bytes(request: PlanRequest) -> int:
    """Estimate of what a GPU needs beside weights and cache.

    The widest layer's activations for a batch, the sampler's copies of the logits (fp32, sorted, with
    their indices), CUDA's and NCCL's own, and captured graphs.
    """
    shape, num = request.shape, request.tensor_parallel
    width = 4 * shape.hidden_size + (3 * shape.intermediate_size + shape.num_heads * shape.head_dim) // num
    activations = request.max_num_batched_tokens * width * min(2.0, bytes_of(request.dtype))
    logits = request.max_num_seqs * shape.vocab_size * (3 * 4 + 8)
    graphs = shape.num_layers * 8 * 1024**2 if request.cuda_graphs else 0
    return round(activations + logits + graphs) + _CONTEXT_BYTES + (_NCCL_BYTES if num > 1 else 0)


def _kv_bytes(request: PlanRequest, weights: int, reserved: int) -> int:
    if request.kv_bytes is not None:
        return request.kv_bytes
    usable = round(request.device.memory_bytes * request.utilization)
    return max(0, usable - weights - reserved)


def _roofline(request: PlanRequest) -> Roofline:
    return Roofline(
        shape=request.shape,
        device=request.device,
        weight_bytes=weight_bytes(
            request.shape, dtype=request.dtype, quantization=request.quantization, stored=request.stored
        ),
        kv_dtype=request.resolved_kv_dtype,
        tensor_parallel=request.tensor_parallel,
        is_8bit=(request.quantization or request.shape.quantization) in _8BIT,
    )


def _bound(request: PlanRequest) -> Speed:
    roofline, prompt = _roofline(request), request.context_tokens - request.answer_tokens
    loaded = roofline.decode_seconds(request.context_tokens, num_sequences=request.concurrency)
    return Speed(
        ttft_seconds=roofline.prefill_seconds(prompt),
        cached_ttft_seconds=roofline.prefill_seconds(prompt, cached_tokens=_cached(prompt)),
        tpot_seconds=roofline.decode_seconds(request.context_tokens),
        loaded_tpot_seconds=loaded,
        tokens_per_second=request.concurrency / loaded,
    )


def _measured(request: PlanRequest, rates: EngineRates) -> Speed:
    prompt = request.context_tokens - request.answer_tokens
    return Speed(
        ttft_seconds=rates.ttft_seconds(prompt),
        cached_ttft_seconds=rates.ttft_seconds(prompt, cached_tokens=_cached(prompt)),
        tpot_seconds=rates.tpot_seconds(request.context_tokens),
    )


def _cached(prompt_tokens: int) -> int:
    return max(0, prompt_tokens - _FOLLOW_UP_TOKENS)


def _notes(request: PlanRequest, layout: KvLayout, num_blocks: int, num_sequences: int) -> Iterator[str]:
    if request.kv_bytes is None and request.device.is_gpu:
        yield "activations, CUDA and graphs beside the weights are estimated"
    if num_blocks == 0:
        yield "the weights leave no room for a cache: quantize, or share them out between more devices"
    elif num_sequences < request.concurrency:
        needed = request.concurrency * layout.blocks_of(request.context_tokens) + 1
        missing = needed * (layout.bytes_per_block + _draft_block_bytes(request))
        yield (
            f"{request.concurrency} sequences of {request.context_tokens:,} tokens need "
            f"{missing / 1024**3:.2f} GiB of cache if they share no prefix"
        )
    if request.max_num_seqs < request.concurrency:
        yield f"the engine runs {request.max_num_seqs} sequences at once: further ones wait"
