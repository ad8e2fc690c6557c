"""A whole service for a benchmark: the embedded stack in a data folder of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.report import BenchOptions
from client import LongleafClient
from core.settings import Settings, load_settings
from embedded.home import with_free_ports
from embedded.stack import EmbeddedStack


@contextmanager
def running_service(
    options: BenchOptions, name: str, *, with_engine: bool, engine_url: str = ""
) -> Iterator[tuple[EmbeddedStack, LongleafClient]]:
    """A fresh, ready stack and a client of it; both are gone after the block, with their data.

    An engine at `engine_url` is used as it is, and outlives the block.
    """
    home = options.home / f"bench-{name}"
    shutil.rmtree(home, ignore_errors=True)
    settings = _settings(home, options.model_dir, engine_url)
    try:
        with (
            EmbeddedStack(settings, with_engine=with_engine, developer_endpoints=True) as stack,
            LongleafClient(stack.url, stack.key) as client,
        ):
            yield stack, client
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _settings(home: Path, model_dir: Path, engine_url: str) -> Settings:
    ours = load_settings()
    own = {"home": home, "model_cache": model_dir, "database_url": "", "redis_url": ""}
    engine = ours.engine.model_copy(update={"url": engine_url})
    # What is measured is what the benchmark asks for, and not what was computed beside it.
    prewarm = ours.prewarm.model_copy(update={"enabled": False})
    return with_free_ports(ours.model_copy(update={**own, "engine": engine, "prewarm": prewarm}))
