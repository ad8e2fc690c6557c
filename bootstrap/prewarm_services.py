"""What prewarms collections, built around an engine that is connected already."""

from __future__ import annotations

from accounting.ledger import Ledger
from bootstrap.engine_services import ServedModel
from bootstrap.model_defaults import ModelDefaults
from core.settings import Settings
from generation.prefix.shelf import PieceShelf
from generation.prewarm.builder import PieceHeads
from generation.prewarm.pipeline import PrewarmPipeline
from storage.database import Database


def build_prewarm(
    settings: Settings, database: Database, served: ServedModel, ledger: Ledger
) -> PrewarmPipeline:
    """The pipeline that runs jobs of kind `prewarm`."""
    defaults = ModelDefaults.of(served.spec.num_parameters)
    return PrewarmPipeline(
        settings=settings.prewarm,
        database=database,
        engine=served.generator,
        builder=PieceHeads(PieceShelf(database), served.tokenizer, is_brief=defaults.is_brief),
        ledger=ledger,
        default_mode=defaults.mode,
        lookback_seconds=settings.ask.whole_lookback_seconds,
        slice_seconds=settings.worker.slice_seconds,
    )
