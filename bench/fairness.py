"""How long a second tenant waits for its file while a first one has thousands queued.

The first tenant's files are small. They come in both ways in which they may: each as an upload of its
own, and all in as few uploads as the service takes. The figure is the worse of the two.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import count

import httpx
import numpy as np

from bench.report import BenchOptions, BenchResult, BenchTable
from bench.service import running_service
from client import LongleafClient
from client.problems import ProblemError
from core.clock import utc_now
from core.ids import TenantId
from embedded.stack import EmbeddedStack
from storage.database import Database
from tenancy.keys import issue_key
from tenancy.principal import Scope
from tenancy.tenants import create_tenant

_NUM_SAMPLES = 5
_PER_UPLOAD = 1000
_FILE_SECONDS = 60.0
_numbers = count(1)

Files = Sequence[tuple[str, bytes]]


def run(options: BenchOptions) -> BenchResult:
    """The second tenant's median time to searchable under load, over its median on an idle system."""
    num_files = 200 if options.quick else 2000
    with running_service(options, "fairness", with_engine=False) as (stack, _):
        second = _second_tenant(stack)
        with LongleafClient(stack.url, second) as client:
            target = client.get_or_create_collection("second")["id"]
            measure = _Measure(client, second, target)
            measure.sample()  # whatever is only done once
            idle = [measure.sample() for _ in range(_NUM_SAMPLES)]
            loads: dict[str, Callable[[], None]] = {
                "an upload each": lambda: _upload(stack, num_files, per_upload=1),
                "as few uploads as can be": lambda: _upload(stack, num_files, per_upload=_PER_UPLOAD),
            }
            busy = {name: _under(stack, load, measure) for name, load in loads.items()}
    ratios = {name: float(np.median(samples) / np.median(idle)) for name, samples in busy.items()}
    return BenchResult(
        name="fairness",
        config={"num_files": num_files, "num_samples": _NUM_SAMPLES, "quick": options.quick},
        figures={"second_tenant_ratio": max(ratios.values())},
        details={"ratios": ratios, "idle_seconds": idle, "busy_seconds": busy},
        tables=[
            BenchTable(
                f"the second tenant's file beside {num_files:,} of the first's",
                ("the first's come as", "seconds, median", "worst", "ratio"),
                [
                    ("nothing: idle", f"{np.median(idle):.2f}", f"{max(idle):.2f}", "1"),
                    *(
                        (name, f"{np.median(each):.2f}", f"{max(each):.2f}", f"{ratios[name]:.2f}")
                        for name, each in busy.items()
                    ),
                ],
            )
        ],
    )


class _Measure:
    """Uploads one small new file at a time, and waits until it can be found."""

    def __init__(self, client: LongleafClient, key: str, collection_id: str) -> None:
        self._client = client
        self._key = key
        self._collection_id = collection_id

    def sample(self) -> float:
        started = time.perf_counter()
        job_id = _post(self._client.url, self._key, self._collection_id, [_file()])
        job = self._client.wait_for_job(job_id, timeout=_FILE_SECONDS)
        assert job["status"] == "succeeded", job
        return time.perf_counter() - started


def _under(stack: EmbeddedStack, load: Callable[[], None], measure: _Measure) -> list[float]:
    """Samples while the first tenant's files are queued; afterwards nothing of theirs is."""
    load()
    samples = [measure.sample() for _ in range(_NUM_SAMPLES)]
    with LongleafClient(stack.url, stack.key) as first:
        left = list(first.list_jobs(status="queued", kind="ingest"))
        assert left, "the first tenant's files were done before the second's were measured: take more"
        for status in ("queued", "running"):
            for job in list(first.list_jobs(status=status, kind="ingest")):
                _cancel(first, job["id"])
        while any(first.list_jobs(status="running")):
            time.sleep(0.2)
    return samples


def _cancel(client: LongleafClient, job_id: str) -> None:
    try:
        client.cancel_job(job_id)
    except ProblemError as error:
        if error.code != "conflict":  # it has ended meanwhile
            raise


def _upload(stack: EmbeddedStack, num_files: int, *, per_upload: int) -> None:
    with LongleafClient(stack.url, stack.key) as client:
        collection_id = client.get_or_create_collection("first")["id"]
    for first in range(0, num_files, per_upload):
        files = [_file() for _ in range(min(per_upload, num_files - first))]
        _post(stack.url, stack.key, collection_id, files)


def _post(url: str, key: str, collection_id: str, files: Files) -> str:
    """The id of the upload's job."""
    response = httpx.post(
        f"{url}/v1/collections/{collection_id}/documents",
        headers={"Authorization": f"Bearer {key}"},
        files=[("files", file) for file in files],
        timeout=120,
        trust_env=False,
    )
    response.raise_for_status()
    job_id: str = response.json()["job"]["id"]
    return job_id


def _file() -> tuple[str, bytes]:
    number = next(_numbers)
    text = f"# Note {number}\n\nThe archive keeps box {number} on shelf {number % 97}. 第{number}号箱子在架上。\n"
    return f"note-{number}.md", text.encode()


def _second_tenant(stack: EmbeddedStack) -> str:
    """Its key."""
    database = Database(stack.settings.resolved_database_url)
    try:
        with database.write() as session:
            tenant = create_tenant(session, name="second", now=utc_now())
            issued = issue_key(
                session, TenantId(tenant.id), name="bench", scopes=[Scope.ADMIN], now=utc_now()
            )
    finally:
        database.dispose()
    return issued.token
