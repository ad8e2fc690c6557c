"""Texts with reference summaries in the `sum-*` sets of the evaluation data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peers.protocol import Language
from core.errors import NotFound


@dataclass(frozen=True, slots=True)
class SummaryCase:
    """A text and what people made of it; several references are alternatives."""

    set_name: str
    name: str
    language: Language
    text: str
    references: tuple[str, ...]


def load_cases(data_dir: Path, *, per_set: int | None = None) -> list[SummaryCase]:
    """General summaries of every set, the first `per_set` of each.

    Raises:
        NotFound: a set is not there.
    """
    cases = []
    for read in (_squality, _qmsum, _gov_report, _vcsum):
        found = list(read(data_dir))
        cases += found if per_set is None else found[:per_set]
    return cases


def _squality(data_dir: Path) -> Iterator[SummaryCase]:
    for row in _rows(data_dir / "sum-squality" / "dev.jsonl"):
        plot = row["questions"][0]
        yield SummaryCase("squality", row["id"], "en", row["document"], tuple(plot["references"]))


def _qmsum(data_dir: Path) -> Iterator[SummaryCase]:
    for row in _rows(data_dir / "sum-qmsum" / "test.16.jsonl"):
        text = "\n".join(row["transcript"])
        yield SummaryCase("qmsum", row["id"], "en", text, (row["general"][0]["summary"],))


def _gov_report(data_dir: Path) -> Iterator[SummaryCase]:
    for row in _rows(data_dir / "sum-longbench-mini" / "sum.jsonl"):
        if row["task"] == "gov_report":
            yield SummaryCase("gov_report", row["id"], "en", row["context"], tuple(row["answers"]))


def _vcsum(data_dir: Path) -> Iterator[SummaryCase]:
    for row in _rows(data_dir / "sum-vcsum" / "test.16.jsonl"):
        text = "\n".join(row["transcript"])
        yield SummaryCase("vcsum", row["id"], "zh", text, (row["summary"],))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        raise NotFound(f"There is no {path}.", remedy="Point LONGLEAF_DATA at the evaluation data.")
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)
