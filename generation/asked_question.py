"""The stored question, ready to be answered."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from core.ids import AnswerId, CollectionId, ConversationId
from core.settings import AskSettings
from generation.constraints import OutputFormat
from generation.questions import QuestionParameters, Unsupported
from generation.sampling import SamplingChoice, sampling_of
from inference.protocols import SamplingParameters
from retrieval.filters import DocumentFilter
from storage.models import Answer


@dataclass(frozen=True, slots=True)
class Question:
    """The stored question, with the server's defaults filled in.

    `text` is as it was asked. `turn` counts from 1 within a conversation and is 0 outside one.
    `sampling` is what the engine is asked for, `choice` what the caller said of it.
    """

    answer_id: AnswerId
    collection_id: CollectionId
    conversation_id: ConversationId | None
    turn: int
    text: str
    mode: str
    context: str
    filter: DocumentFilter
    rerank: bool
    extraction: str
    expansion: str
    condensing: str
    unsupported: Unsupported
    prefix_planner: bool
    num_passages: int
    max_context_tokens: int
    sampling: SamplingParameters
    choice: SamplingChoice
    accepted_at: datetime
    trace: bool | None = None
    form: OutputFormat | None = None
    must_include: tuple[str, ...] = ()
    validation: str = "rule"
    max_repairs: int = 0

    @property
    def is_constrained(self) -> bool:
        """Whether the text is given out exactly as it was written, or not at all."""
        return self.form is not None or bool(self.must_include)

    @property
    def num_samples(self) -> int:
        return self.choice.n or 1


def question_of(answer: Answer, settings: AskSettings, *, default_mode: str) -> Question:
    """The question of an answer yet to be written."""
    given = QuestionParameters.of_json(answer.parameters)
    is_constrained = given.format is not None or bool(given.must_include)
    if is_constrained and given.mode == "auto":
        default_mode = "abstractive"  # quotes have the form that their documents gave them
    return Question(
        answer_id=AnswerId(answer.id),
        collection_id=CollectionId(answer.collection_id),
        conversation_id=ConversationId(answer.conversation_id) if answer.conversation_id else None,
        turn=answer.turn or 0,
        text=answer.question,
        mode=default_mode if given.mode == "auto" else given.mode,
        context=settings.context if given.context == "auto" else given.context,
        filter=given.filter,
        rerank=settings.rerank if given.rerank is None else given.rerank,
        extraction=settings.extraction if given.extraction == "auto" else given.extraction,
        expansion=given.expansion,
        condensing=settings.condensing if given.condensing == "auto" else given.condensing,
        unsupported=given.unsupported,
        prefix_planner=settings.prefix_planner if given.prefix_planner is None else given.prefix_planner,
        num_passages=given.num_passages or settings.num_passages,
        max_context_tokens=given.max_context_tokens or settings.max_context_tokens,
        sampling=sampling_of(given, default_max_tokens=settings.max_answer_tokens),
        choice=given,
        accepted_at=answer.accepted_at,
        trace=given.trace,
        form=given.format,
        must_include=given.must_include,
        validation="rule" if given.validation == "auto" else given.validation,
        max_repairs=settings.repair_attempts if given.max_repairs is None else given.max_repairs,
    )
