"""The stored question, ready to be answered."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from core.ids import AnswerId, CollectionId
from core.settings import AskSettings
from inference.protocols import SamplingParameters
from storage.models import Answer


@dataclass(frozen=True, slots=True)
class Question:
    """The stored question, with the server's defaults filled in."""

    answer_id: AnswerId
    collection_id: CollectionId
    text: str
    mode: str
    num_passages: int
    sampling: SamplingParameters
    accepted_at: datetime


def question_of(answer: Answer, settings: AskSettings, *, default_mode: str) -> Question:
    """The question of an answer yet to be written."""
    given: dict[str, Any] = answer.parameters
    mode = given.get("mode") or "auto"
    return Question(
        answer_id=AnswerId(answer.id),
        collection_id=CollectionId(answer.collection_id),
        text=answer.question,
        mode=default_mode if mode == "auto" else mode,
        num_passages=given.get("num_passages") or settings.num_passages,
        sampling=SamplingParameters(
            max_tokens=given.get("max_tokens") or settings.max_answer_tokens,
            temperature=_or(given.get("temperature"), 0.0),
            top_p=_or(given.get("top_p"), 1.0),
            seed=given.get("seed"),
            stop=tuple(given.get("stop") or ()),
        ),
        accepted_at=answer.accepted_at,
    )


def _or(value: float | None, default: float) -> float:
    return default if value is None else value
