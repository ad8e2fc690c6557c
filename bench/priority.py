"""How long a person waits for the first token while the offline queue is full.

The offline work are evaluations whose questions the model writes answers to: they fill the workers'
share for such work, the engine, and the queue `batch`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from bench.report import BenchOptions, BenchResult, BenchTable
from bench.service import running_service
from client import LongleafClient

_NUM_EVALUATIONS = 4
_WRITTEN = {"mode": "abstractive", "max_tokens": 64, "num_passages": 4}
"""What the offline questions ask for; a person's are alike, but shorter."""


def run(options: BenchOptions) -> BenchResult:
    """p95 of `ttft_seconds` with a full offline queue, over p95 on an idle system."""
    num_questions = 12 if options.quick else 60
    with running_service(options, "priority", with_engine=True) as (_, client):
        collection_id = _prepare(client)
        for i in range(3):  # whatever is only done once
            _ask(client, collection_id, 1000 + i)
        idle = [_ask(client, collection_id, i) for i in range(num_questions)]
        jobs = _fill(client, collection_id, num_questions)
        busy = [_ask(client, collection_id, 2000 + i) for i in range(num_questions)]
        left = [client.get_job(job_id)["status"] for job_id in jobs]
        for job_id, status in zip(jobs, left, strict=True):
            if status in ("queued", "running"):
                client.cancel_job(job_id)
    assert set(left) <= {"queued", "running"}, "the offline work was done too soon: have more of it"
    idle_p95, busy_p95 = (float(np.percentile(each, 95)) for each in (idle, busy))
    return BenchResult(
        name="priority",
        config={
            "num_questions": num_questions,
            "num_evaluations": _NUM_EVALUATIONS,
            "quick": options.quick,
        },
        figures={"interactive_ttft_p95_ratio": busy_p95 / idle_p95},
        details={"idle_seconds": idle, "busy_seconds": busy},
        tables=[
            BenchTable(
                "seconds to a person's first token",
                ("offline queue", "p50", "p95"),
                [
                    ("empty", f"{np.median(idle):.3f}", f"{idle_p95:.3f}"),
                    ("full", f"{np.median(busy):.3f}", f"{busy_p95:.3f}"),
                ],
            )
        ],
    )


def _ask(client: LongleafClient, collection_id: str, number: int) -> float:
    answer = client.ask(
        collection_id,
        f"What is kept in box {number % 64}, and since when, asked for the {number}th time?",
        mode="abstractive",
        num_passages=4,
        max_tokens=16,
    )
    timings = answer["timings"] or {}
    return float(timings["ttft_seconds"] or 0.0)


def _fill(client: LongleafClient, collection_id: str, num_questions: int) -> list[str]:
    """The jobs of evaluations that last longer than what is measured beside them."""
    questions = [
        {"question": f"Which box holds the papers of year {1500 + i}?", "answers": ["box"]}
        for i in range(20 * num_questions)
    ]
    made = [
        client.create_evaluation(collection_id, questions=questions, parameters=_WRITTEN)
        for _ in range(_NUM_EVALUATIONS)
    ]
    return [evaluation["job_id"] for evaluation in made]


def _prepare(client: LongleafClient) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "boxes.md"
        path.write_text("\n\n".join(_paragraph(i) for i in range(64)), encoding="utf-8")
        collection_id = client.get_or_create_collection("priority")["id"]
        for upload in client.upload(collection_id, [path]):
            client.wait_for_job(upload.job["id"])
    return collection_id


def _paragraph(i: int) -> str:
    return (
        f"# Box {i}\n\nBox {i} holds the papers of year {1500 + i}. They were put there in {1900 + i}, "
        f"after the fire in hall {i % 7}, and nobody has opened it but the keeper of shelf {i % 11}."
    )
