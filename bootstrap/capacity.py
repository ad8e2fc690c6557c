"""The planner on this installation: its models, its machine, and what its engine was seen to take."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from core.settings import Settings
from inference.capacity.cpu_speed import forget_speed
from inference.capacity.plan import CapacityPlan
from inference.capacity.rates import EngineRates, EngineSample, fit_rates
from inference.engine_plan import PlanOptions, plan_engine
from inference.machine import detect_machine
from inference.prepare import model_path
from inference.registry import find_model
from storage.database import Database
from storage.engine_samples import TimedAnswer, list_timed_answers

MAX_TIMED = 300
"""Answers that rates are fitted to: the newest, for machines and settings change."""


def plan_capacity(
    settings: Settings, model: str, options: PlanOptions, *, measure: bool = False
) -> CapacityPlan:
    """The plan for `model`, empty: the one that the settings name.

    Args:
        measure: measure this machine's CPU anew.

    Raises:
        InvalidInput, Misconfigured, ModelUnavailable: the message says what cannot be planned.
    """
    if measure:
        forget_speed(settings.root)
    spec = find_model(model or settings.engine.model, role="generator", revision=settings.engine.revision)
    served = find_model(settings.engine.model, role="generator", revision=settings.engine.revision)
    is_served = spec.name == served.name and not (options.gpu or options.dtype or options.quantization)
    return plan_engine(
        settings.engine,
        options,
        model_folder=model_path(spec, settings.model_dir),
        data_folder=settings.root,
        machine=detect_machine(),
        draft_folder=_draft_folder(settings),
        rates=_known_rates(settings, served.name) if is_served else None,
    )


def engine_rates(session: Session, model: str) -> EngineRates | None:
    """How fast the engine that serves `model` was lately; None where too little is known."""
    timed = list_timed_answers(session, model=model, limit=MAX_TIMED)
    return fit_rates([sample_of(answer) for answer in timed])


def sample_of(answer: TimedAnswer) -> EngineSample:
    """What of an answer's timings is the engine's own work."""
    timings = answer.timings
    # Time to the first token counts the engine's queue; the pace of the engine is without it.
    ttft = timings.get("engine_ttft_seconds", 0.0) - timings.get("engine_queue_seconds", 0.0)
    return EngineSample(
        prompt_tokens=answer.prompt_tokens,
        cached_tokens=answer.cached_tokens,
        completion_tokens=answer.completion_tokens,
        ttft_seconds=ttft,
        decode_seconds=timings.get("decode_seconds", 0.0),
    )


def typical_overhead_seconds(timed: list[TimedAnswer]) -> float | None:
    """What a question waits for beside the engine: search, reranking, our own; None where unknown."""
    waits = [
        answer.timings["ttft_seconds"] - answer.timings["engine_ttft_seconds"]
        for answer in timed
        if answer.is_awaited and {"ttft_seconds", "engine_ttft_seconds"} <= answer.timings.keys()
    ]
    return max(0.0, median(waits)) if waits else None


def _draft_folder(settings: Settings) -> Path | None:
    name = settings.engine.draft_model
    return model_path(find_model(name, role="generator"), settings.model_dir) if name else None


def _known_rates(settings: Settings, model: str) -> EngineRates | None:
    """From the data folder's own database, if there is one that can be read."""
    url = settings.resolved_database_url
    if url.startswith("sqlite:///") and not (settings.root / "longleaf.db").exists():
        return None
    database = Database(url)
    try:
        with database.read() as session:
            return engine_rates(session, model)
    except SQLAlchemyError:
        return None  # not migrated, or away: a plan does without
    finally:
        database.dispose()
