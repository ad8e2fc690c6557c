"""The capacity plan of an engine as the settings would start it, or with some of them changed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from core.errors import InvalidInput, Misconfigured, ModelUnavailable
from core.settings import EngineSettings
from inference.capacity.cpu_speed import cpu_speed
from inference.capacity.devices import Device, find_gpu
from inference.capacity.kv_cache import kv_layout
from inference.capacity.local_gpu import local_gpu
from inference.capacity.plan import CapacityPlan, PlanRequest, make_plan
from inference.capacity.rates import EngineRates
from inference.capacity.shape import read_config, shape_of
from inference.capacity.weights import read_stored_weights
from inference.engine_profiles import CPU_BLOCK_TOKENS, Machine, cpu_dtype
from inference.service_profiles import controls_of

GPU_BLOCK_TOKENS = 16
_ANSWER_TOKENS = 300


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What to plan for, where it is not what the settings say.

    Args:
        answer_tokens: of the context; None: 300, or half of a context too short for that.
        gpu: a GPU's name; empty: the one of this machine, or its CPU.
        on_cpu: plan for this machine's CPU though it has a GPU.
    """

    context_tokens: int | None = None
    concurrency: int | None = None
    answer_tokens: int | None = None
    dtype: str = ""
    kv_dtype: str = ""
    quantization: str = ""
    tensor_parallel: int | None = None
    kv_bytes: int | None = None
    block_tokens: int | None = None
    gpu: str = ""
    on_cpu: bool = False


def plan_engine(
    settings: EngineSettings,
    options: PlanOptions,
    *,
    model_folder: Path,
    data_folder: Path,
    machine: Machine,
    draft_folder: Path | None = None,
    rates: EngineRates | None = None,
) -> CapacityPlan:
    """The plan.

    Args:
        model_folder: a prepared model's, or any folder with a `config.json`; or that file.
        draft_folder: of the draft model, where one guesses.
        data_folder: where what was measured of this machine's CPU is kept.

    Raises:
        InvalidInput: something cannot be planned; the message says what.
        ModelUnavailable: the folder has no readable `config.json`.
    """
    if options.gpu and options.on_cpu:
        raise InvalidInput("The plan is for a GPU and for the CPU.", remedy="Give one of --gpu and --cpu.")
    device = _device(options, data_folder)
    controls = controls_of(settings, "gpu" if device.is_gpu else "cpu")
    shape = shape_of(read_config(model_folder))
    context = options.context_tokens or min(settings.max_model_len, shape.max_position)
    kv_bytes = options.kv_bytes or (None if device.is_gpu else settings.kv_cache_bytes)
    dtype = options.dtype or ("" if settings.dtype == "auto" else settings.dtype)
    block_tokens = options.block_tokens or settings.block_size
    quantization = options.quantization or settings.quantization
    request = PlanRequest(
        shape=shape,
        stored=read_stored_weights(model_folder),
        device=device,
        context_tokens=context,
        concurrency=options.concurrency or controls.max_num_seqs,
        answer_tokens=options.answer_tokens or min(_ANSWER_TOKENS, context // 2),
        dtype=dtype or (_gpu_dtype(shape.dtype) if device.is_gpu else cpu_dtype(machine)),
        kv_dtype=options.kv_dtype or settings.kv_cache_dtype,
        quantization="" if quantization == "none" else quantization,
        tensor_parallel=options.tensor_parallel or settings.tensor_parallel_size,
        block_tokens=block_tokens or (GPU_BLOCK_TOKENS if device.is_gpu else CPU_BLOCK_TOKENS),
        kv_bytes=kv_bytes,
        utilization=settings.gpu_memory_utilization,
        max_num_batched_tokens=controls.max_num_batched_tokens,
        max_num_seqs=controls.max_num_seqs,
        draft=None if draft_folder is None else shape_of(read_config(draft_folder)),
        draft_stored=None if draft_folder is None else read_stored_weights(draft_folder),
    )
    return make_plan(request, rates)


def require_room(settings: EngineSettings, *, model_folder: Path, machine: Machine) -> None:
    """Nothing if the CPU profile's KV space holds one sequence of the whole window.

    Raises:
        Misconfigured: it does not; vLLM would load the weights first and end then.
    """
    try:
        shape = shape_of(read_config(model_folder))
        layout = kv_layout(
            shape,
            dtype=_cpu_kv_dtype(settings, machine),
            block_tokens=settings.block_size or CPU_BLOCK_TOKENS,
            tensor_parallel=settings.tensor_parallel_size,
            max_in_flight_tokens=controls_of(settings, "cpu").max_num_batched_tokens,
        )
    except (InvalidInput, ModelUnavailable):
        return  # of a shape that the planner does not know: vLLM will tell
    needed = layout.blocks_of(settings.max_model_len) * layout.bytes_per_block
    if needed > settings.kv_cache_bytes:
        raise Misconfigured(
            f"A sequence of {settings.max_model_len:,} tokens of {settings.model} needs {needed:,} bytes of "
            f"KV space; LONGLEAF_ENGINE__KV_CACHE_BYTES is {settings.kv_cache_bytes:,}.",
            remedy="Raise it, or lower LONGLEAF_ENGINE__MAX_MODEL_LEN.",
        )


def _cpu_kv_dtype(settings: EngineSettings, machine: Machine) -> str:
    if settings.kv_cache_dtype != "auto":
        return settings.kv_cache_dtype
    return cpu_dtype(machine) if settings.dtype == "auto" else settings.dtype


def _device(options: PlanOptions, data_folder: Path) -> Device:
    if options.gpu:
        return find_gpu(options.gpu)
    found = None if options.on_cpu else local_gpu()
    return found or cpu_speed(data_folder).device()


def _gpu_dtype(saved: str) -> str:
    """vLLM's `auto`: as saved, but fp32 becomes bf16."""
    return "bfloat16" if saved in ("float32", "float") else saved
