"""What a worker process needs: models loaded, pipelines built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from accounting.ledger import Ledger
from bootstrap.api_services import ApiServices, build_api_services
from bootstrap.retrieval_services import build_embedder
from core.settings import Settings
from generation.pipeline import AnswerPipeline
from generation.questions import ANSWER_KIND
from inference.completions_client import ClientTimeouts, CompletionsClient
from inference.manifest import read_manifest
from inference.prepare import model_path
from inference.protocols import ChatTokenizer, Embedder, Generator
from inference.registry import ModelSpec, find_model
from inference.tokenizers import HuggingFaceTokenizer
from ingest.compaction import CompactionPipeline
from ingest.compaction_requests import COMPACT_KIND
from ingest.embedding import ChunkEmbedder
from ingest.pipeline import IngestPipeline
from ingest.uploads import INGEST_KIND
from retrieval.dense_index import DenseIndex
from retrieval.extraction import MIN_SUPPORT, EmbeddingExtractor
from retrieval.index_writer import IndexWriter
from retrieval.lexical_index import LexicalIndex
from retrieval.maintenance import IndexMaintenance
from retrieval.pipeline import RetrievalPipeline
from storage.database import Database
from storage.events import EventBus

EXTRACTIVE_BELOW_PARAMETERS = 1_000_000_000
"""A generator smaller than this writes worse answers than the sentences it was given."""

Handlers = Mapping[str, IngestPipeline | AnswerPipeline | CompactionPipeline]


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

    def close(self) -> None:
        self.shared.close()


def build_worker_services(settings: Settings) -> WorkerServices:
    """Load the models (seconds) and build the pipelines around them.

    Raises:
        ModelUnavailable: a model is not prepared.
    """
    shared = build_api_services(settings)
    embedder = build_embedder(settings)
    spec = find_model(settings.engine.model, role="generator", revision=settings.engine.revision)
    folder = model_path(spec, settings.model_dir)
    tokenizer = HuggingFaceTokenizer(folder)
    manifest = read_manifest(folder)
    generator = CompletionsClient(
        settings.engine_url,
        model=spec.name,
        revision=manifest.revision if manifest else settings.engine.revision,
        api_key=settings.engine.api_key,
        timeouts=ClientTimeouts(silence_seconds=settings.engine.request_timeout_seconds),
    )
    ledger = Ledger()
    dense, lexical = DenseIndex(settings.index_dir), LexicalIndex(settings.index_dir)
    retrieval = RetrievalPipeline(database=shared.database, embedder=embedder, dense=dense, lexical=lexical)
    answers = AnswerPipeline(
        settings=settings.ask,
        default_mode=default_mode(spec),
        database=shared.database,
        events=shared.events,
        embedder=embedder,
        retrieval=retrieval,
        extractor=EmbeddingExtractor(embedder),
        min_support=MIN_SUPPORT,
        generator=generator,
        tokenizer=tokenizer,
        ledger=ledger,
    )
    ingest = IngestPipeline(
        settings=settings,
        database=shared.database,
        blobs=shared.blobs,
        chunk_embedder=ChunkEmbedder(shared.database, embedder, ledger),
        embedder_tokenizer=embedder.tokenizer,
        generator_tokenizer=tokenizer,
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
        tokenizer=tokenizer,
        generator=generator,
        retrieval=retrieval,
        handlers={INGEST_KIND: ingest, ANSWER_KIND: answers, COMPACT_KIND: compaction},
        shared=shared,
    )


def default_mode(spec: ModelSpec) -> str:
    """`extractive` below a billion parameters, else `abstractive`; so too where the size is unknown."""
    size = spec.num_parameters
    return "extractive" if size is not None and size < EXTRACTIVE_BELOW_PARAMETERS else "abstractive"
