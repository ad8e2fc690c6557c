"""Accepting a question: one transaction makes the answer's row and its job.

Used by the API, so it imports no model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import timedelta
from functools import partial
from typing import Any, Literal

from sqlalchemy.orm import Session

from accounting.holds import Estimate, reserve
from core.clock import utc_now
from core.errors import EmptyInput, TooLong
from core.ids import CollectionId, ConversationId, JobId, TenantId
from generation.constraints import OutputFormat, admit_format
from generation.sampling import SamplingChoice
from retrieval.filters import DocumentFilter
from storage.answers import ANSWER_KIND, AnswerRepository
from storage.collections import CollectionRepository
from storage.conversations import ConversationRepository, NextTurn
from storage.jobs import JobRepository
from storage.models import Answer
from tenancy.principal import Principal

MAX_QUESTION_CHARACTERS = 50_000
"""A question is refused above this at once; below it, by the model's own tokens."""

AnswerMode = Literal["auto", "extractive", "abstractive", "quoted"]
ContextChoice = Literal["auto", "whole", "passages"]
ExtractionMethod = Literal["auto", "none", "rule", "embedding", "model", "cross_encoder"]
Expansion = Literal["none", "multi_query", "decompose"]
Condensing = Literal["auto", "none", "rule", "model"]
Unsupported = Literal["flag", "remove"]
Validation = Literal["auto", "none", "rule", "model"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionParameters(SamplingChoice):
    """What a caller may set; None and `auto` mean the server's default.

    `context`: whole documents or passages. `extraction`: how sentences are kept of passages.
    `expansion`: further queries made of the question by the small model. `condensing`: how a
    conversation's question is made to stand alone. `unsupported`: whether sentences that nothing
    supports are flagged or removed. `format` and `must_include`: what the answer's text must be, and hold;
    `validation`: who checks it against the passages; `max_repairs`: how often it may be written again. How the answer is
    sampled: see `SamplingChoice`.
    """

    mode: AnswerMode = "auto"
    context: ContextChoice = "auto"
    filter: DocumentFilter = field(default_factory=DocumentFilter)
    rerank: bool | None = None
    extraction: ExtractionMethod = "auto"
    max_context_tokens: int | None = None
    expansion: Expansion = "none"
    condensing: Condensing = "auto"
    unsupported: Unsupported = "flag"
    prefix_planner: bool | None = None
    num_passages: int | None = None
    trace: bool | None = None
    format: OutputFormat | None = None
    must_include: tuple[str, ...] = ()
    validation: Validation = "auto"
    max_repairs: int | None = None

    def as_json(self) -> dict[str, Any]:
        """For `Answer.parameters`."""
        return asdict(self) | {
            "filter": self.filter.as_json(),
            "format": None if self.format is None else self.format.as_json(),
        }

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> QuestionParameters:
        """What `as_json` gave; fields it lacks, as answers of older versions do, take their defaults."""
        given = {known.name: stored[known.name] for known in fields(cls) if known.name in stored}
        return cls(
            **given
            | cls.fields_of_json(stored)
            | {
                "filter": DocumentFilter.of_json(stored.get("filter") or {}),
                "format": OutputFormat.of_json(stored["format"]) if stored.get("format") else None,
                "must_include": tuple(stored.get("must_include") or ()),
            }
        )


QuestionEstimate = Callable[[Session, TenantId, CollectionId, str, QuestionParameters], Estimate]
"""What a question takes as a rule and at most, before it is asked."""


def admit_question(question: str, parameters: QuestionParameters) -> None:
    """Raises what `register_question` does for a question that can be asked of no collection."""
    admit_format(parameters.format, parameters.must_include, mode=parameters.mode, sampling=parameters)
    if not any(character.isalnum() for character in question):
        raise EmptyInput("The question is empty.", remedy="Ask something in `question`.")
    if len(question) > MAX_QUESTION_CHARACTERS:
        raise TooLong(
            f"The question has {len(question):,} characters; at most {MAX_QUESTION_CHARACTERS:,} fit.",
            remedy="Upload long text as a document and ask about it.",
            num_characters=len(question),
        )


def register_question(
    session: Session,
    principal: Principal,
    collection_id: CollectionId,
    question: str,
    parameters: QuestionParameters,
    *,
    max_attempts: int,
    turn: NextTurn | None = None,
    part_of: JobId | None = None,
    deadline_seconds: float | None = None,
    estimate: QuestionEstimate | None = None,
) -> Answer:
    """A queued answer, in the caller's transaction; `turn` is its place in a conversation.

    Args:
        part_of: the job that asks; nobody else waits for it, so others are answered first.
        deadline_seconds: it fails if it is not answered by then.
        estimate: what it will take, held of the budgets it counts against; None: nothing is held.

    Raises:
        BudgetExceeded: one has too little left.
        NotFound: no such collection of the tenant.
        EmptyInput: the question has no letter or digit.
        TooLong: it is longer than any window.
        InvalidInput: the answer cannot be held to the form asked for.
    """
    admit_question(question, parameters)
    CollectionRepository(session, principal.tenant_id).get(collection_id)
    job = JobRepository(session, principal.tenant_id).create(
        ANSWER_KIND,
        queue="interactive",
        payload={"asked_by": part_of} if part_of else {},
        collection_id=collection_id,
        key_id=principal.key_id,
        max_attempts=max_attempts,
        part_of=part_of,
        background=part_of is not None,
        deadline_at=None if deadline_seconds is None else utc_now() + timedelta(seconds=deadline_seconds),
    )
    asked = (session, principal.tenant_id, collection_id, question, parameters)
    reserve(session, job, partial(estimate, *asked) if estimate else None)
    return AnswerRepository(session, principal.tenant_id).create(
        JobId(job.id),
        collection_id,
        question=question.replace("\x00", ""),
        parameters=parameters.as_json(),
        conversation_id=turn.conversation_id if turn else None,
        turn=turn.number if turn else None,
    )


def register_turn(
    session: Session,
    principal: Principal,
    conversation_id: ConversationId,
    question: str,
    parameters: QuestionParameters,
    *,
    max_attempts: int,
    deadline_seconds: float | None = None,
    estimate: QuestionEstimate | None = None,
) -> Answer:
    """A queued answer that is the conversation's next turn, in the caller's transaction.

    Raises:
        NotFound: no such conversation of the tenant, or its collection was deleted.
        Conflict: the turn before it is not finished.
        EmptyInput, TooLong, BudgetExceeded: as `register_question`.
    """
    turn = ConversationRepository(session, principal.tenant_id).take_turn(conversation_id)
    return register_question(
        session,
        principal,
        turn.collection_id,
        question,
        parameters,
        max_attempts=max_attempts,
        turn=turn,
        deadline_seconds=deadline_seconds,
        estimate=estimate,
    )
