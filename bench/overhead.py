"""What Longleaf adds around the models: API, database, relay, Celery, search, packing, streaming.

One caller at a time, on an idle service, asks short written answers. From the time that the caller
waits, the seconds that the answer's own timings give to the engine and to the embedder are taken
off; what is left is ours.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.report import BenchOptions, BenchResult, BenchTable
from bench.service import running_service
from client import LongleafClient

MODEL_SECONDS = ("engine_seconds", "embed_seconds", "extract_seconds")
_MAX_TOKENS = 4
_CITIES = ("Aldora", "Brenmark", "Castelin", "Dunwick", "Eastmere", "Fallowby", "Greywater", "Highcombe")


def run(options: BenchOptions) -> BenchResult:
    """p50 and p99 of the overhead, in milliseconds, and where it goes."""
    num_questions = 20 if options.quick else 100
    with running_service(options, "overhead", with_engine=True) as (_, client):
        collection_id = _prepare(client)
        _ask_all(client, collection_id, num_questions=5)
        measured = _ask_all(client, collection_id, num_questions=num_questions)
    overhead = [sample["overhead"] for sample in measured]
    p50, p99 = np.percentile(overhead, [50, 99])
    steps = {
        step: float(np.median([sample[step] for sample in measured]))
        for step in ("overhead", "queue", "search", "models", "total")
    }
    return BenchResult(
        name="overhead",
        config={"num_questions": num_questions, "max_tokens": _MAX_TOKENS, "clients": 1},
        figures={"overhead_p50_ms": float(p50), "overhead_p99_ms": float(p99)},
        details={"median_ms": steps, "overhead_ms": [round(ms, 3) for ms in overhead]},
        tables=[
            BenchTable(
                "median milliseconds of a question",
                ("part", "ms"),
                [
                    ("all that the caller waits", f"{steps['total']:.1f}"),
                    ("engine and embedder", f"{steps['models']:.1f}"),
                    ("Longleaf", f"{steps['overhead']:.1f}"),
                    ("  of it: accepted until claimed by a worker", f"{steps['queue']:.1f}"),
                    ("  of it: search without embedding", f"{steps['search']:.1f}"),
                ],
            )
        ],
    )


def _prepare(client: LongleafClient) -> str:
    """A small collection; its size hardly matters to what is measured."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cities.md"
        path.write_text("\n\n".join(_paragraph(i) for i in range(64)), encoding="utf-8")
        collection_id = client.get_or_create_collection("overhead")["id"]
        for upload in client.upload(collection_id, [path]):
            client.wait_for_job(upload.job["id"])
    return collection_id


def _paragraph(i: int) -> str:
    city = f"{_CITIES[i % len(_CITIES)]} {i // len(_CITIES) + 1}"
    return f"# {city}\n\nThe city of {city} has {i + 3} bridges. Its market was founded in {1400 + 7 * i}."


def _ask_all(client: LongleafClient, collection_id: str, *, num_questions: int) -> Sequence[dict[str, float]]:
    return [_ask(client, collection_id, i) for i in range(num_questions)]


def _ask(client: LongleafClient, collection_id: str, i: int) -> dict[str, float]:
    city = f"{_CITIES[i % len(_CITIES)]} {i // len(_CITIES) % 8 + 1}"
    started = time.perf_counter()
    answer = client.ask(
        collection_id,
        f"How many bridges has the city of {city}?",
        mode="abstractive",
        num_passages=2,
        max_tokens=_MAX_TOKENS,
    )
    total = time.perf_counter() - started
    timings = answer["timings"] or {}
    models = sum(timings.get(name) or 0.0 for name in MODEL_SECONDS)
    search = (timings.get("retrieval_seconds") or 0.0) - (timings.get("embed_seconds") or 0.0)
    seconds = {
        "total": total,
        "models": models,
        "overhead": total - models,
        "queue": timings.get("queue_seconds") or 0.0,
        "search": search,
    }
    return {name: value * 1000 for name, value in seconds.items()}
