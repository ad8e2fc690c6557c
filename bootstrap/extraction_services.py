"""What fills tables, built around models that are loaded already."""

from __future__ import annotations

from accounting.ledger import Ledger
from bootstrap.answer_services import ModelDefaults
from core.settings import AskSettings
from generation.extraction_tables.finding import ColumnFinder
from generation.extraction_tables.pipeline import SLICE_SECONDS, ExtractionPipeline
from inference.protocols import ChatTokenizer, Embedder, Generator
from retrieval.extraction import EmbeddingExtractor
from retrieval.pipeline import RetrievalPipeline
from retrieval.support import SupportEstimator
from storage.database import Database


def build_extraction_pipeline(
    *,
    settings: AskSettings,
    defaults: ModelDefaults,
    database: Database,
    embedder: Embedder,
    retrieval: RetrievalPipeline,
    generator: Generator,
    tokenizer: ChatTokenizer,
    ledger: Ledger,
    min_support: float | None = None,
    slice_seconds: float = SLICE_SECONDS,
) -> ExtractionPipeline:
    """The pipeline that runs jobs of kind `extract`. A small model chooses by rule, a larger one fills."""
    return ExtractionPipeline(
        settings=settings,
        database=database,
        finder=ColumnFinder(
            settings=settings,
            retrieval=retrieval,
            embedder=embedder,
            extractor=EmbeddingExtractor(embedder, tokenizer),
            support=SupportEstimator(embedder, min_support=min_support),
        ),
        embedder=embedder,
        generator=generator,
        tokenizer=tokenizer,
        ledger=ledger,
        default_method="rule" if defaults.is_brief else "fill",
        is_brief=defaults.is_brief,
        slice_seconds=slice_seconds,
    )
