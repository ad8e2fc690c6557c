"""Which GPU this machine has, without CUDA or torch."""

from __future__ import annotations

from pathlib import Path

from core.errors import InvalidInput
from inference.capacity.devices import Device, find_gpu

_DRIVER = Path("/proc/driver/nvidia/gpus")


def local_gpu(driver: Path = _DRIVER) -> Device | None:
    """The first GPU that NVIDIA's driver lists and the planner knows; None without one."""
    for file in sorted(driver.glob("*/information")):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("Model:"):
                try:
                    return find_gpu(line.partition(":")[2])
                except InvalidInput:
                    return None
    return None
