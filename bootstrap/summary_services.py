"""What makes summaries, built around models that are loaded already."""

from __future__ import annotations

from accounting.ledger import Ledger
from bootstrap.model_defaults import ModelDefaults
from generation.summaries.abstractive import AbstractiveWriter
from generation.summaries.extractive import ExtractiveWriter
from generation.summaries.pipeline import SLICE_SECONDS, SummaryPipeline
from inference.protocols import ChatTokenizer, Embedder, Generator
from storage.database import Database


def build_summary_pipeline(
    *,
    defaults: ModelDefaults,
    database: Database,
    embedder: Embedder,
    generator: Generator,
    tokenizer: ChatTokenizer,
    ledger: Ledger,
    slice_seconds: float = SLICE_SECONDS,
) -> SummaryPipeline:
    """The pipeline that runs jobs of kind `summarize`. For a small model sentences are chosen, not written."""
    return SummaryPipeline(
        database=database,
        writers={
            "extractive": ExtractiveWriter(embedder),
            "abstractive": AbstractiveWriter(generator=generator, tokenizer=tokenizer, embedder=embedder),
        },
        default_writer="extractive" if defaults.mode == "extractive" else "abstractive",
        generator=generator,
        ledger=ledger,
        slice_seconds=slice_seconds,
    )
