"""What a device can do at most, as its maker publishes it: dense arithmetic, no sparsity."""

from __future__ import annotations

import re
from dataclasses import dataclass

from core.errors import InvalidInput

_GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator, or all cores of a CPU.

    Args:
        flops: operations a second in 16-bit (a CPU: in the type it was measured with).
        flops_8bit: in FP8 or INT8; 0 where the device has no such unit.
        bytes_per_second: from memory.
        memory_bytes: of one device; 0 where it does not limit.
    """

    name: str
    flops: float
    bytes_per_second: float
    memory_bytes: int = 0
    flops_8bit: float = 0.0

    @property
    def is_gpu(self) -> bool:
        return self.memory_bytes > 0


def _gpu(name: str, gib: float, gb_per_second: float, tflops: float, tflops_8bit: float = 0.0) -> Device:
    return Device(name, tflops * 1e12, gb_per_second * 1e9, round(gib * _GIB), tflops_8bit * 1e12)


GPUS: tuple[Device, ...] = (
    _gpu("T4", 15, 320, 65, 130),
    _gpu("RTX 3090", 24, 936, 71, 284),
    _gpu("RTX 4090", 24, 1008, 165, 330),
    _gpu("A10", 22.5, 600, 125, 250),
    _gpu("L4", 22.5, 300, 121, 242),
    _gpu("L40S", 45, 864, 362, 733),
    _gpu("A100 40GB", 39.5, 1555, 312, 624),
    _gpu("A100 80GB", 79.25, 2039, 312, 624),
    _gpu("H20", 95.6, 4000, 148, 296),
    _gpu("H100 PCIe", 79.6, 2000, 756, 1513),
    _gpu("H100", 79.6, 3350, 989, 1979),
    _gpu("H200", 139.8, 4800, 989, 1979),
    _gpu("B200", 178, 8000, 2250, 4500),
)


def find_gpu(name: str) -> Device:
    """The GPU of that name: `h100`, `NVIDIA H100 80GB HBM3`, `a100-40gb`.

    Raises:
        InvalidInput: it is not in the table.
    """
    wanted = _plain(name)
    # The longest name first: `H100 PCIe` is not taken for an `H100`.
    for device in sorted(GPUS, key=lambda gpu: -len(gpu.name)):
        if all(part in wanted.split() for part in _plain(device.name).split()):
            return device
    starts = [gpu for gpu in GPUS if _plain(gpu.name).startswith(wanted)] if wanted else []
    if starts:
        return max(starts, key=lambda gpu: gpu.memory_bytes)
    raise InvalidInput(
        f"The planner does not know a GPU named {name!r}.",
        remedy=f"Use one of {', '.join(gpu.name for gpu in GPUS)}.",
        gpu=name,
    )


def _plain(name: str) -> str:
    words = re.sub(r"[^a-z0-9]+", " ", name.lower())
    return re.sub(r"\b(rtx|geforce|nvidia|tesla|sxm\d?|hbm\d?e?)\b", " ", words).strip()
