"""All that the bytes of a KV block depend on but its tokens; imported inside vLLM alone."""

from __future__ import annotations

import hashlib
import platform
from pathlib import Path
from typing import Any

import torch
import vllm

from inference.manifest import read_manifest


def engine_identity(vllm_config: Any, kv_cache_config: Any) -> dict[str, object]:
    """Values that are equal for two engines exactly when they can read one another's blocks."""
    model, cache, parallel = (
        vllm_config.model_config,
        vllm_config.cache_config,
        vllm_config.parallel_config,
    )
    (group,) = kv_cache_config.kv_cache_groups
    return {
        "model": model_revision(model.model, hub_revision=getattr(model.hf_config, "_commit_hash", None)),
        # Scaling of positions and all else that is set beside the weights, but not where they lie.
        "config": {**model.hf_config.to_dict(), "_name_or_path": ""},
        "max_model_len": model.max_model_len,
        "dtype": str(model.dtype),
        "quantization": str(model.quantization),
        "kv_cache_dtype": str(cache.cache_dtype),
        "spec": repr(group.kv_cache_spec),
        "layers": list(group.layer_names),
        "ranks": [parallel.tensor_parallel_size, parallel.pipeline_parallel_size],
        # Kernels arrange keys and values as suits the processor, and may do so anew in each release.
        "vllm": vllm.__version__,
        "processor": [
            platform.machine(),
            torch.backends.cpu.get_cpu_capability(),
            torch.cpu._is_amx_tile_supported(),
        ],
        "device": str(vllm_config.device_config.device_type),
    }


def model_revision(model: str, *, hub_revision: str | None) -> str:
    """What tells these weights from others: a prepared folder's revision, the hub's commit, or, of
    any other folder, names, sizes and times of its files."""
    folder = Path(model)
    manifest = read_manifest(folder)
    if manifest is not None:
        return manifest.revision
    if not folder.is_dir():
        return f"{model}@{hub_revision}"
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    stats = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return hashlib.sha256(repr(stats).encode()).hexdigest()
