"""What a benchmark takes and gives; a table for people, one JSON object for scripts."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

Figure = float | int | bool


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """How to run.

    Args:
        data_dir: evaluation sets.
        model_dir: prepared models.
        home: a data folder for benchmarks that start a whole service.
        quick: a smaller run with the same keys.
        extra: options of one benchmark only.
    """

    data_dir: Path
    model_dir: Path
    home: Path
    quick: bool = False
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BenchTable:
    """Rows to print, cells already in words."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class BenchResult:
    """`figures` has exactly the stable keys of the benchmark; `details` is for reading."""

    name: str
    config: Mapping[str, Any]
    figures: Mapping[str, Figure]
    details: Mapping[str, Any]
    tables: Sequence[BenchTable] = ()

    def to_json(self) -> str:
        """One object: name, machine, revision, config, figures, details."""
        return json.dumps(
            {
                "name": self.name,
                "machine": describe_machine(),
                "revision": current_revision(),
                "config": dict(self.config),
                "figures": dict(self.figures),
                "details": dict(self.details),
            },
            ensure_ascii=False,
            indent=2,
        )

    def print(self, console: Console | None = None) -> None:
        """The tables, then the figures."""
        console = console or Console()
        figures = BenchTable(
            f"{self.name}: figures", ("figure", "value"), [(k, words(v)) for k, v in self.figures.items()]
        )
        for table in (*self.tables, figures):
            console.print(_rich(table))

    def write_json(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.to_json() + "\n", encoding="utf-8")


def words(value: Figure) -> str:
    """A figure with as many places as it is worth."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def describe_machine() -> dict[str, Any]:
    """Processor, cores, memory, Python: what a figure depends on."""
    return {
        "processor": _processor(),
        "num_cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def current_revision() -> str:
    """The commit checked out, `-dirty` with local changes; empty outside a checkout."""
    root = Path(__file__).resolve().parent.parent
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def _rich(table: BenchTable) -> Table:
    drawn = Table(title=table.title, title_justify="left")
    for position, column in enumerate(table.columns):
        drawn.add_column(column, justify="left" if position == 0 else "right")
    for row in table.rows:
        drawn.add_row(*row)
    return drawn
