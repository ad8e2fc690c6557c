"""Bounds that a process sets on itself before it reads a stranger's file."""

from __future__ import annotations

import contextlib
import resource


def limit_process(*, memory_bytes: int, cpu_seconds: int) -> None:
    """Bound this process. CPU time outlives a parent that was killed and cannot kill us."""
    for what, limit in ((resource.RLIMIT_AS, memory_bytes), (resource.RLIMIT_CPU, cpu_seconds)):
        with contextlib.suppress(ValueError, OSError):  # macOS refuses RLIMIT_AS
            resource.setrlimit(what, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
