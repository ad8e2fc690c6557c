"""What this machine's CPU can do, measured once in two seconds and kept in the data folder."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from inference.capacity.devices import Device

FILE = "cpu-speed.json"

_MATRIX = 1536
_VECTOR_MATRIX = 8192  # 256 MiB: larger than any cache
_SECONDS_EACH = 0.8


@dataclass(frozen=True, slots=True)
class CpuSpeed:
    """Operations a second of a large fp32 matrix product, and bytes a second of a matrix times a vector.

    `processor` and `num_cores` say what was measured; on another machine it is measured again.
    """

    processor: str
    num_cores: int
    flops: float
    bytes_per_second: float

    def device(self) -> Device:
        return Device(f"{self.processor}, {self.num_cores} cores", self.flops, self.bytes_per_second)


def known_speed(folder: Path) -> CpuSpeed | None:
    """What was measured of this machine before; None where nothing was."""
    try:
        document = json.loads((folder / FILE).read_text(encoding="utf-8"))
        speed = CpuSpeed(**document)
    except (OSError, ValueError, TypeError):
        return None
    return speed if (speed.processor, speed.num_cores) == (_processor(), _num_cores()) else None


def forget_speed(folder: Path) -> None:
    """Have it measured again: the machine was busy, or has changed."""
    (folder / FILE).unlink(missing_ok=True)


def cpu_speed(folder: Path) -> CpuSpeed:
    """What is known of this machine, measured now if nothing is."""
    known = known_speed(folder)
    if known is not None:
        return known
    speed = measure_speed()
    folder.mkdir(parents=True, exist_ok=True)
    # In place by rename: a reader never sees half a file.
    fresh = folder / f".{FILE}.{os.getpid()}"
    fresh.write_text(json.dumps(asdict(speed), indent=2) + "\n", encoding="utf-8")
    fresh.replace(folder / FILE)
    return speed


def measure_speed() -> CpuSpeed:
    """The best of what is measured in under two seconds; what else the machine does makes it less."""
    random = np.random.default_rng(0)
    left = random.random((_MATRIX, _MATRIX), dtype=np.float32)
    square = _best_seconds(lambda: left @ left)
    wide = np.ones((_VECTOR_MATRIX, _VECTOR_MATRIX), dtype=np.float32)
    vector = random.random(_VECTOR_MATRIX, dtype=np.float32)
    streamed = _best_seconds(lambda: wide @ vector)
    return CpuSpeed(_processor(), _num_cores(), 2 * _MATRIX**3 / square, wide.nbytes / streamed)


def _best_seconds(work: Callable[[], object]) -> float:
    best, started = float("inf"), time.perf_counter()
    while time.perf_counter() - started < _SECONDS_EACH:
        before = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - before)
    return best


def _num_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "CPU"
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else "CPU"
