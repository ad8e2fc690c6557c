"""What a worker process needs: models loaded, pipelines built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from accounting.ledger import Ledger
from accounting.stored_reports import COST_REPORT_KIND, StoredReportPipeline
from bootstrap.answer_services import ModelDefaults, build_answer_pipeline
from bootstrap.api_services import ApiServices, build_api_services
from bootstrap.delivery_services import build_webhook_pipeline
from bootstrap.engine_services import connect_engine, connect_small_model
from bootstrap.estimates import estimate_question
from bootstrap.extraction_services import build_extraction_pipeline
from bootstrap.prewarm_services import build_prewarm
from bootstrap.probe_accounts import ProbeAccounts
from bootstrap.retrieval_services import build_cross_encoder, build_embedder
from bootstrap.summary_services import build_summary_pipeline
from core.settings import Settings
from evaluation.pipeline import EvaluationPipeline
from evaluation.registration import EVALUATE_KIND
from generation.batches.pipeline import BatchPipeline
from generation.batches.registration import BATCH_KIND
from generation.extraction_tables.pipeline import ExtractionPipeline
from generation.extraction_tables.registration import EXTRACT_KIND
from generation.pipeline import AnswerPipeline
from generation.prewarm.pipeline import PrewarmPipeline
from generation.summaries.pipeline import SummaryPipeline
from generation.summaries.registration import SUMMARIZE_KIND
from generation.tracing.attention_pipeline import AttentionPipeline
from generation.tracing.attention_requests import ATTENTION_KIND
from inference.attention import TransformersAttentionReader
from inference.protocols import ChatTokenizer, Embedder, Generator
from inference.small_model import ChatSmallModel
from inference.tracked_generator import Follows
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
from storage.answers import ANSWER_KIND
from storage.database import Database
from storage.events import EventBus
from storage.prefix_leads import PrefixLeads
from storage.prewarm_jobs import PREWARM_KIND
from storage.webhooks import WEBHOOK_KIND
from tenancy.webhooks.pipeline import WebhookPipeline

Handlers = Mapping[
    str,
    IngestPipeline
    | AnswerPipeline
    | CompactionPipeline
    | BatchPipeline
    | EvaluationPipeline
    | ExtractionPipeline
    | AttentionPipeline
    | PrewarmPipeline
    | StoredReportPipeline
    | WebhookPipeline
    | SummaryPipeline,
]


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
        if isinstance(self.generator, Follows):
            self.generator.stop_following()
        self.leads.close()
        self.shared.close()


def build_worker_services(settings: Settings) -> WorkerServices:
    """Load the models (seconds) and build the pipelines around them.

    Raises:
        ModelUnavailable: a model is not prepared.
    """
    shared = build_api_services(settings)
    ledger = Ledger()
    embedder = build_embedder(settings)
    probes = ProbeAccounts(shared.database, ledger)
    served = connect_engine(settings, on_probed=probes.record)
    small = connect_small_model(settings, on_probed=probes.record) if settings.small_model.url else served
    cross_encoder = build_cross_encoder(settings)
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
        IndexMaintenance(
            database=shared.database, embedder=embedder, dense=dense, lexical=lexical, ledger=ledger
        ),
    )
    # Half of the threads at most answer what nobody waits for.
    max_in_flight = max(1, settings.worker.interactive_threads // 2)
    max_attempts, estimate = settings.worker.max_attempts, partial(estimate_question, settings)
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
            COST_REPORT_KIND: StoredReportPipeline(shared.database),
            ATTENTION_KIND: AttentionPipeline(
                shared.database,
                TransformersAttentionReader(
                    served.folder,
                    max_tokens=settings.ask.trace_attention_tokens,
                    max_model_bytes=settings.ask.trace_attention_bytes,
                ),
                ledger,
                model=served.spec.name,
                model_revision=served.revision,
            ),
            PREWARM_KIND: build_prewarm(settings, shared.database, served, ledger),
            WEBHOOK_KIND: build_webhook_pipeline(settings, shared.database),
            BATCH_KIND: BatchPipeline(
                shared.database, max_attempts=max_attempts, estimate=estimate, max_in_flight=max_in_flight
            ),
            EVALUATE_KIND: EvaluationPipeline(
                shared.database, max_attempts=max_attempts, estimate=estimate, max_in_flight=max_in_flight
            ),
            EXTRACT_KIND: build_extraction_pipeline(
                settings=settings.ask,
                defaults=ModelDefaults.of(served.spec.num_parameters),
                database=shared.database,
                embedder=embedder,
                retrieval=retrieval,
                generator=served.generator,
                tokenizer=served.tokenizer,
                ledger=ledger,
                min_support=settings.ask.min_support,
            ),
            SUMMARIZE_KIND: build_summary_pipeline(
                defaults=ModelDefaults.of(served.spec.num_parameters),
                database=shared.database,
                embedder=embedder,
                generator=served.generator,
                tokenizer=served.tokenizer,
                ledger=ledger,
            ),
        },
        shared=shared,
        leads=leads,
    )
