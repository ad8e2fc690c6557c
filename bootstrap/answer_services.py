"""What answers questions, built around models that are loaded already."""

from __future__ import annotations

from collections.abc import Mapping

from accounting.ledger import Ledger
from bootstrap.model_defaults import SMALL_BELOW_PARAMETERS, ModelDefaults
from core.settings import AskSettings
from generation.conversations import ConversationHistory
from generation.leading import Leads
from generation.material import MaterialPlanner
from generation.pipeline import AnswerPipeline
from generation.prefix.planner import PrefixPlanner
from generation.tracing.tracer import Tracer
from generation.understanding import QuestionReader
from inference.engine_load import EngineLoadSampler
from inference.protocols import ChatTokenizer, Embedder, Generator, Reranker
from inference.small_model import SmallModel
from inference.tracked_generator import HoldsPrefixes, TrackedGenerator
from retrieval.extraction import (
    ChoiceExtractor,
    CrossEncoderExtractor,
    EmbeddingExtractor,
    PassageExtractor,
    RuleExtractor,
)
from retrieval.history import (
    CondensingMethod,
    HistorySummarizer,
    ModelCondenser,
    QuestionCondenser,
    RuleCondenser,
)
from retrieval.pipeline import RetrievalPipeline
from retrieval.query_expansion import QueryExpander
from retrieval.support import SupportEstimator
from storage.database import Database
from storage.events import EventBus

__all__ = ["SMALL_BELOW_PARAMETERS", "ModelDefaults", "build_answer_pipeline"]


def build_answer_pipeline(
    *,
    settings: AskSettings,
    defaults: ModelDefaults,
    database: Database,
    events: EventBus,
    embedder: Embedder,
    retrieval: RetrievalPipeline,
    generator: Generator,
    tokenizer: ChatTokenizer,
    small_model: SmallModel,
    cross_encoder: Reranker | None,
    ledger: Ledger,
    min_support: float | None = None,
    leads: Leads | None = None,
    load_sampler: EngineLoadSampler | None = None,
) -> AnswerPipeline:
    """The pipeline that runs jobs of kind `answer`.

    Args:
        generator: tracked already where the small model uses the same engine.
        cross_encoder: the configured one, if any; without it extraction by `cross_encoder` is refused.
        min_support: a threshold in place of the calibrated one.
        leads: who computes which prefix; without it none waits for another.
        load_sampler: of the generator's engine, for traces.
    """
    tracked = generator if isinstance(generator, HoldsPrefixes) else TrackedGenerator(generator)
    rule = RuleCondenser()
    condensers: dict[CondensingMethod, QuestionCondenser] = {
        "rule": rule,
        "model": ModelCondenser(small_model, fallback=rule),
    }
    history = ConversationHistory(
        database=database,
        condensers=condensers,
        auto=defaults.condensing,
        summarizer=HistorySummarizer(tokenizer, small_model if defaults.condensing == "model" else None),
        settings=settings,
    )
    return AnswerPipeline(
        settings=settings,
        default_mode=defaults.mode,
        database=database,
        events=events,
        embedder=embedder,
        reader=QuestionReader(history, QueryExpander(small_model)),
        retrieval=retrieval,
        support=SupportEstimator(embedder, min_support=min_support),
        material=MaterialPlanner(
            database,
            settings,
            prefix=PrefixPlanner(database, settings, tracked),
            extractors=_extractors(settings, embedder, tokenizer, small_model, cross_encoder),
            default_extraction=defaults.extraction,
            extracted_tokens=settings.extracted_tokens or defaults.extracted_tokens,
        ),
        generator=tracked,
        tokenizer=tokenizer,
        is_brief=defaults.is_brief,
        small_model=small_model,
        ledger=ledger,
        leads=leads,
        tracer=Tracer(settings, tokenizer, load_sampler),
    )


def _extractors(
    settings: AskSettings,
    embedder: Embedder,
    tokenizer: ChatTokenizer,
    small_model: SmallModel,
    cross_encoder: Reranker | None,
) -> Mapping[str, PassageExtractor]:
    found: list[PassageExtractor] = [
        EmbeddingExtractor(embedder, tokenizer, sure_lead=settings.extractive_sure_lead),
        RuleExtractor(tokenizer),
        ChoiceExtractor(small_model, tokenizer),
    ]
    if cross_encoder is not None:
        found.append(CrossEncoderExtractor(cross_encoder, tokenizer))
    return {extractor.name: extractor for extractor in found}
