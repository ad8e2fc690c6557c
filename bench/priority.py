"""How long a person waits for the first token while the offline queue is full.

The offline work are evaluations whose questions the model writes answers to: they fill the workers'
share for such work, the engine, and the queue `batch`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bench.report import BenchOptions, BenchResult, BenchTable
from bench.service import running_service
from client import LongleafClient

_NUM_EVALUATIONS = 4
_WRITTEN = {"mode": "abstractive", "max_tokens": 64, "num_passages": 4}
"""What the offline questions ask for; a person's are alike, but shorter."""
_PARTS = ("queue", "retrieval", "rerank", "extract", "leader_wait", "engine_queue", "prefill", "engine_ttft")

_NUM_BOXES = 200
_BOXES = {
    "idle": range(60),
    "before": range(70, 75),
    "busy": range(80, 140),
    "offline": range(150, _NUM_BOXES),
}
"""Each part asks about boxes of its own, so that none finds in the engine's cache what another had computed."""


def run(options: BenchOptions) -> BenchResult:
    """p95 of `ttft_seconds` with a full offline queue, over p95 on an idle system."""
    num_questions = 12 if options.quick else 60
    with running_service(options, "priority", with_engine=True) as (_, client):
        collection_id = _prepare(client)
        for box in _BOXES["before"]:  # whatever is only done once
            _ask(client, collection_id, box)
        idle = [_ask(client, collection_id, box) for box in _BOXES["idle"][:num_questions]]
        jobs = _fill(client, collection_id, num_questions)
        busy = [_ask(client, collection_id, box) for box in _BOXES["busy"][:num_questions]]
        left = [client.get_job(job_id)["status"] for job_id in jobs]
        for job_id, status in zip(jobs, left, strict=True):
            if status in ("queued", "running"):
                client.cancel_job(job_id)
    assert set(left) <= {"queued", "running"}, "the offline work was done too soon: have more of it"
    idle, busy = ([timings for timings in each if timings] for each in (idle, busy))
    num_written = min(len(idle), len(busy))
    assert num_written > 0.8 * num_questions, "too many were refused before the engine was asked for a token"
    idle_seconds, busy_seconds = ([each["ttft_seconds"] for each in timings] for timings in (idle, busy))
    idle_p95, busy_p95 = (float(np.percentile(each, 95)) for each in (idle_seconds, busy_seconds))
    return BenchResult(
        name="priority",
        config={
            "num_questions": num_questions,
            "num_written": num_written,
            "num_evaluations": _NUM_EVALUATIONS,
            "quick": options.quick,
        },
        figures={"interactive_ttft_p95_ratio": busy_p95 / idle_p95},
        details={"idle_seconds": idle_seconds, "busy_seconds": busy_seconds},
        tables=[
            BenchTable(
                "seconds to a person's first token",
                ("offline queue", "p50", "p95"),
                [
                    ("empty", f"{np.median(idle_seconds):.3f}", f"{idle_p95:.3f}"),
                    ("full", f"{np.median(busy_seconds):.3f}", f"{busy_p95:.3f}"),
                ],
            ),
            BenchTable(
                "where they go: medians; retrieval with reranking, and the engine's first token with its prefill",
                ("offline queue", *_PARTS),
                [
                    ("empty", *(f"{_median(idle, part):.3f}" for part in _PARTS)),
                    ("full", *(f"{_median(busy, part):.3f}" for part in _PARTS)),
                ],
            ),
        ],
    )


def _median(timings: Sequence[Mapping[str, float]], part: str) -> float:
    return float(np.median([each.get(f"{part}_seconds", 0.0) for each in timings]))


def _ask(client: LongleafClient, collection_id: str, box: int) -> dict[str, float]:
    """The answer's timings; empty where it was refused before the engine was asked."""
    answer = client.ask(
        collection_id,
        f"Box {box} holds the papers of which year?",
        mode="abstractive",
        num_passages=4,
        max_tokens=16,
    )
    timings = {name: seconds or 0.0 for name, seconds in (answer["timings"] or {}).items()}
    return timings if timings.get("engine_seconds") else {}


def _fill(client: LongleafClient, collection_id: str, num_questions: int) -> list[str]:
    """The jobs of evaluations that last longer than what is measured beside them."""
    questions = [
        {"question": f"Which box holds the papers of year {1500 + box}?", "answers": [f"box {box}"]}
        for box in list(_BOXES["offline"]) * num_questions
    ]
    made = [
        client.create_evaluation(collection_id, questions=questions, parameters=_WRITTEN)
        for _ in range(_NUM_EVALUATIONS)
    ]
    return [evaluation["job_id"] for evaluation in made]


def _prepare(client: LongleafClient) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "boxes.md"
        path.write_text("\n\n".join(_paragraph(i) for i in range(_NUM_BOXES)), encoding="utf-8")
        collection_id = client.get_or_create_collection("priority")["id"]
        for upload in client.upload(collection_id, [path]):
            client.wait_for_job(upload.job["id"])
    return collection_id


def _paragraph(i: int) -> str:
    return (
        f"# Box {i}\n\nBox {i} holds the papers of year {1500 + i}. They were put there in {1900 + i}, "
        f"after the fire in hall {i % 7}, and nobody has opened it but the keeper of shelf {i % 11}."
    )
