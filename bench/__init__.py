"""Benchmarks on the real parts. `longleaf bench NAME` runs one; names and keys are stable.

A benchmark is a module with `run(options: BenchOptions) -> BenchResult`; it is imported only when
it runs, since most of them load models.
"""

from __future__ import annotations

from importlib import import_module

from bench.report import BenchOptions, BenchResult
from core.errors import NotFound

BENCHMARKS: dict[str, str] = {
    "overhead": "bench.overhead",
    "search": "bench.search",
    "retrieval": "bench.retrieval",
    "ingest": "bench.ingest",
    "conversation": "bench.conversation",
    "extraction": "bench.extraction",
    "answers": "bench.answers",
    "grounding": "bench.grounding",
    "context": "bench.context",
    "sampling": "bench.sampling",
    "planner": "bench.planner",
    "decode": "bench.decode",
    "restart": "bench.restart",
    "position_reuse": "bench.position_reuse",
    "prefix": "bench.prefix",
    "chaos": "bench.chaos",
    "schedules": "bench.schedules",
    "summaries": "bench.summaries",
    "ledger": "bench.ledger",
    "fairness": "bench.fairness",
    "priority": "bench.priority",
}


def run_benchmark(name: str, options: BenchOptions) -> BenchResult:
    """Run the benchmark of that name.

    Raises:
        NotFound: there is none.
    """
    if name not in BENCHMARKS:
        raise NotFound(
            f"There is no benchmark named {name!r}.", remedy=f"Choose from {', '.join(sorted(BENCHMARKS))}."
        )
    result: BenchResult = import_module(BENCHMARKS[name]).run(options)
    return result


__all__ = ["BENCHMARKS", "BenchOptions", "BenchResult", "run_benchmark"]
