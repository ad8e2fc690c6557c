"""What a worker process needs: models loaded, pipelines built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from accounting.ledger import Ledger
from bootstrap.answer_services import ModelDefaults, build_answer_pipeline
from bootstrap.api_services import ApiServices, build_api_services
from bootstrap.retrieval_services import build_cross_encoder, build_embedder
from core.settings import Settings
from evaluation.pipeline import EvaluationPipeline
from evaluation.registration import EVALUATE_KIND
from generation.pipeline import AnswerPipeline
from generation.questions import ANSWER_KIND
from inference.completions_client import ClientTimeouts, CompletionsClient
from inference.engine_load import EngineLoadSampler
from inference.manifest import read_manifest
from inference.prepare import model_path
from inference.protocols import ChatTokenizer, Embedder, Generator
from inference.registry import ModelSpec, find_model
from inference.small_model import ChatSmallModel
from inference.tokenizers import HuggingFaceTokenizer
from ingest.compaction import CompactionPipeline
from ingest.compaction_requests import COMPACT_KIND
from ingest.embedding import ChunkEmbedder
from ingest.pipeline import IngestPipeline
from ingest.uploads import INGEST_KIND
from retrieval.dense_index import DenseIndex
from retrieval.index_writer import IndexWriter
from retrieval.lexical_index import LexicalIndex
from retrieval.maintenance import IndexMaintenance
from retrieval.pipeline import RetrievalPipeline
from storage.database import Database
from storage.events import EventBus
from storage.prefix_leads import PrefixLeads

Handlers = Mapping[str, IngestPipeline | AnswerPipeline | CompactionPipeline | EvaluationPipeline]


@dataclass(frozen=True, slots=True)
class WorkerServices:
    """`handlers` runs jobs, by kind."""

    settings: Settings
    database: Database
    events: EventBus
    embedder: Embedder
    tokenizer: ChatTokenizer
    generator: Generator
    retrieval: RetrievalPipeline
    handlers: Handlers
    shared: ApiServices
    leads: PrefixLeads

    def close(self) -> None:
        self.leads.close()
        self.shared.close()


def build_worker_services(settings: Settings) -> WorkerServices:
    """Load the models (seconds) and build the pipelines around them.

    Raises:
        ModelUnavailable: a model is not prepared.
    """
    shared = build_api_services(settings)
    embedder = build_embedder(settings)
    served = _connect(settings, _engine_endpoint(settings))
    small = _connect(settings, _small_endpoint(settings)) if settings.small_model.url else served
    cross_encoder = build_cross_encoder(settings)
    ledger = Ledger()
    leads = PrefixLeads(settings.resolved_redis_url)
    dense, lexical = DenseIndex(settings.index_dir), LexicalIndex(settings.index_dir)
    retrieval = RetrievalPipeline(
        database=shared.database,
        embedder=embedder,
        dense=dense,
        lexical=lexical,
        reranker=cross_encoder,
        num_reranked=settings.ask.num_reranked,
    )
    answers = build_answer_pipeline(
        settings=settings.ask,
        defaults=ModelDefaults.of(served.spec.num_parameters),
        database=shared.database,
        events=shared.events,
        embedder=embedder,
        retrieval=retrieval,
        generator=served.generator,
        tokenizer=served.tokenizer,
        small_model=ChatSmallModel(small.generator, small.tokenizer),
        cross_encoder=cross_encoder,
        ledger=ledger,
        min_support=settings.ask.min_support,
        leads=leads,
        load_sampler=served.load_sampler,
    )
    ingest = IngestPipeline(
        settings=settings,
        database=shared.database,
        blobs=shared.blobs,
        chunk_embedder=ChunkEmbedder(shared.database, embedder, ledger),
        embedder_tokenizer=embedder.tokenizer,
        generator_tokenizer=served.tokenizer,
        max_chunk_tokens=min(settings.chunk.max_tokens, embedder.max_tokens),
        index_writer=IndexWriter(dense=dense, lexical=lexical),
    )
    compaction = CompactionPipeline(
        shared.database,
        IndexMaintenance(database=shared.database, embedder=embedder, dense=dense, lexical=lexical),
    )
    return WorkerServices(
        settings=settings,
        database=shared.database,
        events=shared.events,
        embedder=embedder,
        tokenizer=served.tokenizer,
        generator=served.generator,
        retrieval=retrieval,
        handlers={
            INGEST_KIND: ingest,
            ANSWER_KIND: answers,
            COMPACT_KIND: compaction,
            EVALUATE_KIND: EvaluationPipeline(shared.database, max_attempts=settings.worker.max_attempts),
        },
        shared=shared,
        leads=leads,
    )


@dataclass(frozen=True, slots=True)
class _Endpoint:
    url: str
    api_key: str
    model: str
    revision: str


@dataclass(frozen=True, slots=True)
class _ServedModel:
    """A model at an endpoint, with the tokenizer it was prepared with."""

    spec: ModelSpec
    tokenizer: ChatTokenizer
    generator: Generator
    load_sampler: EngineLoadSampler


def _engine_endpoint(settings: Settings) -> _Endpoint:
    engine = settings.engine
    return _Endpoint(settings.engine_url, engine.api_key, engine.model, engine.revision)


def _small_endpoint(settings: Settings) -> _Endpoint:
    small = settings.small_model
    return _Endpoint(
        small.url.rstrip("/").removesuffix("/v1"),
        small.api_key,
        small.model or settings.engine.model,
        small.revision,
    )


def _connect(settings: Settings, endpoint: _Endpoint) -> _ServedModel:
    spec = find_model(endpoint.model, role="generator", revision=endpoint.revision)
    folder = model_path(spec, settings.model_dir)
    manifest = read_manifest(folder)
    generator = CompletionsClient(
        endpoint.url,
        model=spec.name,
        revision=manifest.revision if manifest else endpoint.revision,
        api_key=endpoint.api_key,
        timeouts=ClientTimeouts(silence_seconds=settings.engine.request_timeout_seconds),
    )
    sampler = EngineLoadSampler(generator.engine_counters)
    return _ServedModel(spec, HuggingFaceTokenizer(folder), generator, sampler)
