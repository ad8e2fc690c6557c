"""Samples of what engines have counted, for the ledger to be held against."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from core.ids import new_id
from storage.insertion import insert_if_absent
from storage.models import EngineSample

QUIET_LOOKBACK = timedelta(minutes=10)
"""An edge of an interval is moved back by at most so much to a moment at which nothing was under way."""


def add_sample(session: Session, sample: EngineSample) -> None:
    """Keep it; of two relays that looked at the same moment one is enough."""
    columns = [column.key for column in EngineSample.__mapper__.column_attrs if column.key != "id"]
    values = {name: getattr(sample, name) for name in columns}
    insert_if_absent(session, EngineSample, {"id": new_id("smp"), **values})


def latest_sample(
    session: Session, engine: str, *, model: str | None = None, until: datetime | None = None
) -> EngineSample | None:
    """The engine's last one, up to a moment."""
    query = select(EngineSample).where(EngineSample.engine == engine)
    if model is not None:
        query = query.where(EngineSample.model == model)
    if until is not None:
        query = query.where(EngineSample.sampled_at <= until)
    return session.scalar(query.order_by(EngineSample.sampled_at.desc()).limit(1))


def list_sampled_models(session: Session) -> list[str]:
    return list(session.scalars(select(EngineSample.model).distinct().order_by(EngineSample.model)))


def list_sampled_engines(session: Session, model: str) -> list[str]:
    query = select(EngineSample.engine).where(EngineSample.model == model).distinct()
    return list(session.scalars(query.order_by(EngineSample.engine)))


def find_edge(session: Session, model: str, moment: datetime) -> EngineSample | None:
    """The model's last sample up to the moment; a quiet one rather, if it is not much older."""
    samples = (
        select(EngineSample)
        .where(EngineSample.model == model, EngineSample.sampled_at <= moment)
        .order_by(EngineSample.sampled_at.desc())
        .limit(1)
    )
    quiet = samples.where(EngineSample.is_quiet, EngineSample.sampled_at >= moment - QUIET_LOOKBACK)
    return session.scalar(quiet) or session.scalar(samples)


def first_sample(session: Session, model: str) -> EngineSample | None:
    """The model's earliest."""
    query = select(EngineSample).where(EngineSample.model == model)
    return session.scalar(query.order_by(EngineSample.sampled_at).limit(1))


def first_start(session: Session, model: str) -> datetime | None:
    """When the first of the processes began that were ever sampled."""
    return session.scalar(select(func.min(EngineSample.started_at)).where(EngineSample.model == model))


def list_samples(
    session: Session, model: str, engine: str, *, after: datetime, until: datetime
) -> Sequence[EngineSample]:
    """The engine's, oldest first."""
    return session.scalars(
        select(EngineSample)
        .where(
            EngineSample.model == model,
            EngineSample.engine == engine,
            EngineSample.sampled_at > after,
            EngineSample.sampled_at <= until,
        )
        .order_by(EngineSample.sampled_at)
    ).all()


def forget_samples(session: Session, *, before: datetime) -> None:
    """Of processes that have not been seen since; the last of each engine stays."""
    newest = select(func.max(EngineSample.sampled_at)).group_by(EngineSample.engine)
    session.execute(
        delete(EngineSample).where(
            EngineSample.sampled_at < before, EngineSample.sampled_at.not_in(newest.scalar_subquery())
        )
    )
