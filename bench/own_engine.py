"""An engine for a benchmark alone, started as the settings would start it but for what is changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bench.report import BenchOptions
from core.settings import EngineSettings, load_settings
from embedded.home import find_free_port
from inference.completions_client import CompletionsClient
from inference.engine_launcher import EngineProcess
from inference.local_engine import local_engine_command
from inference.prepare import prepare_model
from inference.registry import find_model


@dataclass(frozen=True, slots=True)
class OwnEngine:
    """A running engine, the settings it was started with, and how long that took."""

    client: CompletionsClient
    settings: EngineSettings
    start_seconds: float


@contextmanager
def running_engine(options: BenchOptions, name: str, **changes: Any) -> Iterator[OwnEngine]:
    """An engine with developer endpoints, gone after the block; its log is `bench-NAME-engine.log`.

    Raises:
        EngineUnavailable: it did not start.
    """
    ours = load_settings().engine
    port = find_free_port(ours.host, preferred=0)
    settings = ours.model_copy(update={"url": "", "port": port} | changes)
    spec = find_model(settings.model, role="generator", revision=settings.revision)
    prepare_model(spec, options.model_dir)
    command = local_engine_command(settings, options.model_dir, developer_endpoints=True)
    options.home.mkdir(parents=True, exist_ok=True)
    log_path = options.home / f"bench-{name}-engine.log"
    process = EngineProcess(command, host=settings.host, port=settings.port, log_path=log_path)
    client = CompletionsClient(process.url, model=settings.model, api_key=settings.api_key)
    try:
        process.start()
        seconds = process.wait_ready(timeout_seconds=settings.start_timeout_seconds)
        yield OwnEngine(client, settings, seconds)
    finally:
        client.close()
        process.stop()
