"""What the engine took for answers of late, whoever asked: numbers only, to tell how fast it is."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from core.priority import BACKGROUND
from storage.models import Answer, Job


@dataclass(frozen=True, slots=True)
class TimedAnswer:
    """Tokens of an answer that the engine wrote, and the timings stored with it. `is_awaited`: somebody waited
    for it, so that it gave way to nobody."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    timings: dict[str, float]
    is_awaited: bool


def list_timed_answers(session: Session, *, model: str, limit: int) -> list[TimedAnswer]:
    """The newest answers that the model wrote, of all tenants; no text and no names.

    Left out are those of several samples, of beams, or written again: they have the sums of several
    requests, which tell the pace of none.
    """
    number, beams = Answer.parameters["n"].as_integer(), Answer.parameters["beam_width"].as_integer()
    repaired = Answer.steps["validation"]["tries"][1].as_string()
    query = (
        select(
            Answer.prompt_tokens,
            Answer.cached_tokens,
            Answer.completion_tokens,
            Answer.timings,
            Job.priority < BACKGROUND,
        )
        .join(Job, Job.id == Answer.job_id)
        .where(
            Answer.model == model,
            Answer.completion_tokens > 0,
            or_(number.is_(None), number == 1),
            or_(beams.is_(None), beams == 1),
            repaired.is_(None),
        )
        .order_by(Answer.created_at.desc(), Answer.id.desc())
        .limit(limit)
    )
    return [TimedAnswer(*row) for row in session.execute(query)]
