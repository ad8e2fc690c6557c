"""A whole service whose engine is reached through a recording proxy, by it and by others."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.recording_proxy import RecordingProxy
from bench.report import BenchOptions
from client import LongleafClient
from core.errors import ModelUnavailable
from core.settings import Settings, load_settings
from embedded.home import make_home, with_free_ports
from embedded.models import unprepared_models
from embedded.stack import EmbeddedStack
from inference.completions_client import CompletionsClient
from inference.engine_launcher import EngineProcess
from inference.engine_profiles import engine_command
from inference.machine import choose_profile, detect_machine
from inference.prepare import model_path
from inference.registry import find_model
from inference.tokenizers import HuggingFaceTokenizer


@dataclass(frozen=True, slots=True)
class RecordedService:
    """`settings` are the service's; its engine's URL is the proxy's."""

    settings: Settings
    stack: EmbeddedStack
    proxy: RecordingProxy
    engine: CompletionsClient

    @property
    def embedder_folder(self) -> Path:
        return model_path(find_model(self.settings.embedder, role="embedder"), self.settings.model_dir)

    def new_client(self) -> LongleafClient:
        """One for each thread."""
        return LongleafClient(self.stack.url, self.stack.key)


@contextmanager
def recorded_service(options: BenchOptions, name: str) -> Iterator[RecordedService]:
    """Engine, proxy and a fresh stack, all ready; gone after the block, with their data.

    Raises:
        ModelUnavailable: the models are not prepared.
    """
    home = options.home / f"bench-{name}"
    shutil.rmtree(home, ignore_errors=True)
    settings = _settings(home, options.model_dir)
    if missing := unprepared_models(settings):
        raise ModelUnavailable(
            f"{len(missing)} models are not prepared in {settings.model_dir}.",
            remedy="Run longleaf models prepare.",
        )
    make_home(settings)
    try:
        with _running_engine(settings) as url, _client(settings, url) as engine:
            tokenizer = HuggingFaceTokenizer(_generator_folder(settings))
            with RecordingProxy(
                url, model=settings.engine.model, encode=tokenizer.encode, decode=tokenizer.decode
            ) as proxy:
                behind = settings.engine.model_copy(update={"url": proxy.url})
                served = settings.model_copy(update={"engine": behind})
                with EmbeddedStack(served) as stack:
                    yield RecordedService(served, stack, proxy, engine)
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def _running_engine(settings: Settings) -> Iterator[str]:
    engine = settings.engine
    command = engine_command(
        engine,
        model_folder=_generator_folder(settings),
        profile=choose_profile(engine),
        machine=detect_machine(),
        developer_endpoints=True,
    )
    process = EngineProcess(
        command, host=engine.host, port=engine.port, log_path=settings.log_dir / "engine.log"
    )
    try:
        process.start()
        process.wait_ready(timeout_seconds=engine.start_timeout_seconds)
        yield process.url
    finally:
        process.stop()


@contextmanager
def _client(settings: Settings, url: str) -> Iterator[CompletionsClient]:
    client = CompletionsClient(url, model=settings.engine.model)
    try:
        yield client
    finally:
        client.close()


def _generator_folder(settings: Settings) -> Path:
    spec = find_model(settings.engine.model, role="generator", revision=settings.engine.revision)
    return model_path(spec, settings.model_dir)


def _settings(home: Path, model_dir: Path) -> Settings:
    ours = load_settings()
    # The log-probabilities of a step's whole prompt are held at once, a vocabulary wide.
    arguments = ["--max-num-batched-tokens", "1024", *ours.engine.extra_args]
    engine = ours.engine.model_copy(update={"url": "", "extra_args": arguments})
    own = {"home": home, "model_cache": model_dir, "database_url": "", "redis_url": "", "engine": engine}
    return with_free_ports(ours.model_copy(update=own))
