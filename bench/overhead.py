"""What Longleaf adds around the models: API, database, relay, Celery, search, packing, streaming.

One caller at a time, over one bare HTTP connection to an idle service, asks short written answers. From the time that the caller
waits, the seconds that the answer's own timings give to the engine and to the embedder are taken
off; what is left is ours.
"""

from __future__ import annotations

import http.client
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.report import BenchOptions, BenchResult, BenchTable
from bench.service import running_service
from client import LongleafClient
from core.errors import EngineUnavailable
from embedded.stack import EmbeddedStack

MODEL_SECONDS = ("engine_seconds", "embed_seconds", "rerank_seconds", "extract_seconds")
_MAX_TOKENS = 4
_CITIES = ("Aldora", "Brenmark", "Castelin", "Dunwick", "Eastmere", "Fallowby", "Greywater", "Highcombe")


def run(options: BenchOptions) -> BenchResult:
    """p50 and p99 of the overhead, in milliseconds, and where it goes."""
    num_questions = 20 if options.quick else 100
    with running_service(options, "overhead", with_engine=True) as (stack, client):
        caller = Caller(stack, _prepare(client))
        for i in range(len(_CITIES)):  # every passage's prefix is cached from here on
            caller.ask(i)
        measured = [caller.ask(i) for i in range(num_questions)]
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


class Caller:
    """Asks over one connection; the standard library's client, so that little is the caller's own."""

    def __init__(self, stack: EmbeddedStack, collection_id: str) -> None:
        self._connection = http.client.HTTPConnection(stack.settings.api_host, stack.settings.api_port)
        self._path = f"/v1/collections/{collection_id}/questions"
        self._headers = {"Authorization": f"Bearer {stack.key}", "Content-Type": "application/json"}

    def ask(self, i: int) -> dict[str, float]:
        """Milliseconds of one question, by part."""
        city = f"{_CITIES[i % len(_CITIES)]} {i // len(_CITIES) % 8 + 1}"
        question = {
            "question": f"How many bridges has the city of {city}?",
            "mode": "abstractive",
            "num_passages": 2,
            "max_tokens": _MAX_TOKENS,
        }
        started = time.perf_counter()
        self._connection.request("POST", self._path, body=json.dumps(question), headers=self._headers)
        with self._connection.getresponse() as response:
            body = response.read()
        total = time.perf_counter() - started
        if response.status != 200:
            raise EngineUnavailable(f"A question of the benchmark ended with {body.decode()}.")
        return _parts(total, json.loads(body)["timings"])


def _parts(total: float, timings: dict[str, float]) -> dict[str, float]:
    models = sum(timings[name] for name in MODEL_SECONDS)
    seconds = {
        "total": total,
        "models": models,
        "overhead": total - models,
        "queue": timings["queue_seconds"],
        "search": timings["retrieval_seconds"] - timings["embed_seconds"],
    }
    return {name: value * 1000 for name, value in seconds.items()}
