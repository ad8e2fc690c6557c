"""Everything at once, while parts of the service are killed at random: what is lost, doubled, or half done?

The whole embedded stack with a second worker of each kind, on PostgreSQL, under uploads, questions,
streams that are followed and left, cancels, summaries and a schedule. Every few seconds something dies:
API, workers, relay (which holds the scheduler), Valkey with all it remembers, every database
connection, the engine. Then all is left in peace until the last job has ended, and audited. `--extra minutes=N` runs
so long; `--extra seed=N` has other accidents.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import structlog
from sqlalchemy import func, select

from bench.chaos_audit import (
    doubled_effects,
    doubled_lines,
    ledger_tokens,
    lost_jobs,
    open_jobs,
    truncated_answers,
)
from bench.chaos_kills import Accidents, EngineTotals, SecondWorkers
from bench.chaos_load import Load, Place
from bench.own_postgresql import running_postgresql
from bench.report import BenchOptions, BenchResult, BenchTable
from client import LongleafClient
from core.settings import Settings, load_settings
from embedded.home import with_free_ports
from embedded.stack import EmbeddedStack
from storage.database import Database
from storage.models import Job

log = structlog.get_logger()

MINUTES = 30.0
QUICK_MINUTES = 4.0
MEAN_SECONDS_BETWEEN_KILLS = 15.0
MAX_ATTEMPTS = 12
"""A job that is killed by chance three times in a row is no poison here, where all are killed all the time."""

_SETTLE_SECONDS = 1200.0

_SHOWN = 12

QUESTIONS = (
    "How many bridges has the city of Aldora?",
    "When was the market of Brenmark founded?",
    "阿尔多拉有几座桥？",
    "Which river runs through Castelin, and how many bridges has it?",
    "布伦马克的市场建于哪一年？",
)


def run(options: BenchOptions) -> BenchResult:
    """Counts of what must not happen, and how far ledger and engine agree."""
    minutes = float(options.extra.get("minutes", QUICK_MINUTES if options.quick else MINUTES))
    seed = int(options.extra.get("seed", 1))
    with running_postgresql() as url, _running_stack(options, url) as stack:
        database = Database(url)
        second = SecondWorkers(stack)
        totals = EngineTotals()
        try:
            with LongleafClient(stack.url, stack.key) as client:
                collection_id = _prepare(client)
            place = Place(stack.url, stack.key, collection_id, QUESTIONS)
            load = Load(place, seed=seed)
            accidents = Accidents(
                stack, second, database, totals, mean_seconds=MEAN_SECONDS_BETWEEN_KILLS, seed=seed
            )
            second.supervisor.wait_ready()
            load.start()
            accidents.start()
            _wait(minutes)
            accidents.stop()
            load.stop()
            _settle(database)
            totals.look(stack.settings.engine_url)
            return _audit(stack, database, load, accidents, totals, minutes, seed)
        finally:
            second.stop()
            database.dispose()


def _audit(
    stack: EmbeddedStack,
    database: Database,
    load: Load,
    accidents: Accidents,
    totals: EngineTotals,
    minutes: float,
    seed: int,
) -> BenchResult:
    with database.read() as session:
        faults = {
            "jobs_lost": lost_jobs(session, load.promises),
            "effects_doubled": doubled_effects(session),
            "truncated_marked_complete": truncated_answers(session, load.promises),
            "ledger_doubled": doubled_lines(session),
        }
        prompt, completion = ledger_tokens(session, stack.settings.engine.model)
        ended = {
            f"{kind} {status}": number
            for kind, status, number in session.execute(
                select(Job.kind, Job.status, func.count()).group_by(Job.kind, Job.status)
            ).tuples()
        }
    counted = totals.prompt_tokens + totals.generation_tokens
    figures: dict[str, Any] = {
        "minutes": minutes,
        "kills": sum(accidents.kills.values()),
        **{name: len(found) for name, found in faults.items()},
        "ledger_vs_engine_difference": abs(prompt + completion - counted) / max(counted, 1),
        "takeup_p95_seconds": float(
            np.percentile([each.claimed_seconds for each in accidents.takeups] or [0.0], 95)
        ),
    }
    tokens = {
        "ledger": {"prompt": prompt, "completion": completion},
        "engine": {"prompt": totals.prompt_tokens, "completion": totals.generation_tokens},
        "engine_lives": totals.num_lives,
    }
    return BenchResult(
        name="chaos",
        config={
            "seed": seed,
            "mean_seconds_between_kills": MEAN_SECONDS_BETWEEN_KILLS,
            "max_attempts": MAX_ATTEMPTS,
        },
        figures=figures,
        details={
            "kills": dict(accidents.kills),
            "jobs": ended,
            "users": dict(load.promises.counts),
            "tokens": tokens,
            "takeups": [asdict(each) for each in sorted(accidents.takeups, key=lambda t: t.claimed_seconds)],
            **faults,
        },
        tables=[
            BenchTable("killed", ("what", "times"), _rows(accidents.kills)),
            BenchTable("jobs, as they ended", ("kind and status", "number"), _rows(ended)),
            BenchTable("what users met", ("what", "times"), _rows(load.promises.counts)),
            BenchTable(
                "tokens",
                ("counted by", "prompt", "completion"),
                [
                    ("the ledger, burned ones included", f"{prompt:,}", f"{completion:,}"),
                    (
                        f"the engine, in {totals.num_lives} lives",
                        f"{totals.prompt_tokens:,}",
                        f"{totals.generation_tokens:,}",
                    ),
                ],
            ),
            BenchTable(
                "faults",
                ("figure", "what"),
                [(name, each) for name, found in faults.items() for each in found[:_SHOWN]],
            ),
        ],
    )


def _rows(counts: Any) -> list[tuple[str, str]]:
    return [(name, str(number)) for name, number in sorted(counts.items())]


@contextmanager
def _running_stack(options: BenchOptions, database_url: str) -> Iterator[EmbeddedStack]:
    home = options.home / "bench-chaos"
    shutil.rmtree(home, ignore_errors=True)
    try:
        with EmbeddedStack(_settings(home, options.model_dir, database_url)) as stack:
            yield stack
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _settings(home: Path, model_dir: Path, database_url: str) -> Settings:
    ours = load_settings()
    own = {"home": home, "model_cache": model_dir, "database_url": database_url, "redis_url": ""}
    worker = ours.worker.model_copy(update={"max_attempts": MAX_ATTEMPTS})
    return with_free_ports(ours.model_copy(update={**own, "worker": worker}))


def _prepare(client: LongleafClient) -> str:
    """A small collection that stays as it is, for questions and summaries."""
    names = ("Aldora 阿尔多拉", "Brenmark 布伦马克", "Castelin 卡斯特林", "Dunwick 邓尼奇")
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"city-{i}.md" for i in range(len(names))]
        for i, (path, name) in enumerate(zip(paths, names, strict=True)):
            english, chinese = name.split()
            path.write_text(
                f"# {name}\n\nThe city of {english} has {i + 3} bridges over the river Ell. Its market was founded "
                f"in {1400 + 7 * i}.\n\n{chinese}有{i + 3}座桥。{chinese}的市场建于{1400 + 7 * i}年。\n",
                encoding="utf-8",
            )
        collection_id = client.get_or_create_collection("chaos cities")["id"]
        for upload in client.upload(collection_id, paths):
            client.wait_for_job(upload.job["id"])
    client.create_schedule("chaos", "summary", {"collection_id": collection_id}, every_seconds=60)
    return collection_id


def _wait(minutes: float) -> None:
    deadline = time.monotonic() + minutes * 60
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(min(left, 60.0))
        log.warning("chaos.running", minutes_left=round(max(deadline - time.monotonic(), 0) / 60, 1))


def _settle(database: Database) -> None:
    """Until no job is open any more, or it is clear that some never end."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while time.monotonic() < deadline:
        with database.read() as session:
            if not open_jobs(session):
                return
        time.sleep(1.0)
