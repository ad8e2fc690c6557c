"""The generation engine as the pipelines see it: one endpoint, or several as a pool."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from core.settings import Settings
from inference.admission import AdmissionPolicy
from inference.completions_client import ClientTimeouts, CompletionsClient, OnProbed, RetryPolicy
from inference.engine_load import EngineLoadSampler
from inference.engine_pool import EnginePool
from inference.kv_events import EventEndpoint, followed_events
from inference.manifest import read_manifest
from inference.pooled_engine import EngineClient, PooledEngine
from inference.prepare import model_path
from inference.protocols import ChatTokenizer
from inference.registry import ModelSpec, find_model
from inference.tokenizers import HuggingFaceTokenizer
from inference.tracked_generator import TrackedEngine


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model at an endpoint, with the tokenizer it was prepared with."""

    spec: ModelSpec
    revision: str
    tokenizer: ChatTokenizer
    generator: EngineClient
    load_sampler: EngineLoadSampler
    folder: Path


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """`urls` are those of one engine, or of several that serve the same model; `events` where each of
    them publishes what its cache holds, empty: they do not."""

    urls: tuple[str, ...]
    api_key: str
    model: str
    revision: str
    events: tuple[EventEndpoint, ...] = ()


def connect_engine(settings: Settings, *, on_probed: OnProbed | None = None) -> ServedModel:
    """The generator. Nothing is asked of an engine yet.

    Raises:
        ModelUnavailable: its tokenizer is not prepared.
        Misconfigured: its events are on, and cannot be followed.
    """
    return _connect(settings, _engine_endpoint(settings), on_probed)


def connect_small_model(settings: Settings, *, on_probed: OnProbed | None = None) -> ServedModel:
    """The small model at an endpoint of its own."""
    small = settings.small_model
    endpoint = _Endpoint(
        (small.url.rstrip("/").removesuffix("/v1"),),
        small.api_key,
        small.model or settings.engine.model,
        small.revision,
    )
    return _connect(settings, endpoint, on_probed)


def build_engine(settings: Settings, *, on_probed: OnProbed | None = None) -> EngineClient:
    """The generator without its tokenizer."""
    endpoint = _engine_endpoint(settings)
    spec = find_model(endpoint.model, role="generator", revision=endpoint.revision)
    return _generator(settings, endpoint, spec, model_path(spec, settings.model_dir), on_probed=on_probed)


def _engine_endpoint(settings: Settings) -> _Endpoint:
    engine = settings.engine
    return _Endpoint(
        settings.engine_urls, engine.api_key, engine.model, engine.revision, followed_events(settings)
    )


def _connect(settings: Settings, endpoint: _Endpoint, on_probed: OnProbed | None) -> ServedModel:
    spec = find_model(endpoint.model, role="generator", revision=endpoint.revision)
    folder = model_path(spec, settings.model_dir)
    generator = _generator(settings, endpoint, spec, folder, on_probed=on_probed)
    sampler = EngineLoadSampler(generator.engine_counters)
    revision = _revision(endpoint, folder)
    return ServedModel(spec, revision, HuggingFaceTokenizer(folder), generator, sampler, folder)


def _revision(endpoint: _Endpoint, folder: Path) -> str:
    """What the model's revision is called, on the ledger for one."""
    manifest = read_manifest(folder)
    return manifest.revision if manifest else endpoint.revision


def _generator(
    settings: Settings,
    endpoint: _Endpoint,
    spec: ModelSpec,
    folder: Path,
    *,
    on_probed: OnProbed | None = None,
) -> EngineClient:
    """A client of the engine at the one URL, or a pool of those at several."""
    revision = _revision(endpoint, folder)
    engine = settings.engine
    patience = AdmissionPolicy(engine.overload_wait_seconds, engine.overload_wait_batch_seconds)

    events = dict(zip(endpoint.urls, endpoint.events, strict=False))

    def connect(url: str, retries: RetryPolicy, admission: AdmissionPolicy) -> TrackedEngine:
        client = CompletionsClient(
            url,
            model=spec.name,
            revision=revision,
            api_key=endpoint.api_key,
            timeouts=ClientTimeouts(silence_seconds=settings.engine.request_timeout_seconds),
            retries=retries,
            admission=admission,
            on_probed=on_probed,
        )
        return TrackedEngine(client, events=events.get(url))

    if len(endpoint.urls) == 1:
        return connect(endpoint.urls[0], RetryPolicy(), patience)
    # The pool tries again itself, elsewhere; and it does not wait for one engine while another has room.
    once, elsewhere = RetryPolicy(max_attempts=1), AdmissionPolicy()
    engines = [
        PooledEngine(f"engine-{n}", url, connect(url, once, elsewhere))
        for n, url in enumerate(endpoint.urls, start=1)
    ]
    return EnginePool(engines, max_imbalance=engine.max_imbalance, admission=patience)
