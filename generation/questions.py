"""Accepting a question: one transaction makes the answer's row and its job.

Used by the API, so it imports no model.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from sqlalchemy.orm import Session

from core.errors import EmptyInput, TooLong
from core.ids import CollectionId, JobId
from retrieval.filters import DocumentFilter
from storage.answers import AnswerRepository
from storage.collections import CollectionRepository
from storage.jobs import JobRepository
from storage.models import Answer
from tenancy.principal import Principal

ANSWER_KIND = "answer"
MAX_QUESTION_CHARACTERS = 50_000
"""A question is refused above this at once; below it, by the model's own tokens."""

AnswerMode = Literal["auto", "extractive", "abstractive", "quoted"]
ContextChoice = Literal["auto", "whole", "passages"]
ExtractionMethod = Literal["auto", "none", "rule", "embedding", "model", "cross_encoder"]
Expansion = Literal["none", "multi_query", "decompose"]
Condensing = Literal["auto", "none", "rule", "model"]
Unsupported = Literal["flag", "remove"]


@dataclass(frozen=True, slots=True)
class QuestionParameters:
    """What a caller may set; None and `auto` mean the server's default.

    `context`: whole documents or passages. `extraction`: how sentences are kept of passages.
    `expansion`: further queries made of the question by the small model. `condensing`: how a
    conversation's question is made to stand alone. `unsupported`: whether sentences that nothing
    supports are flagged or removed.
    """

    mode: AnswerMode = "auto"
    context: ContextChoice = "auto"
    filter: DocumentFilter = DocumentFilter()
    rerank: bool | None = None
    extraction: ExtractionMethod = "auto"
    max_context_tokens: int | None = None
    expansion: Expansion = "none"
    condensing: Condensing = "auto"
    unsupported: Unsupported = "flag"
    num_passages: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()


def register_question(
    session: Session,
    principal: Principal,
    collection_id: CollectionId,
    question: str,
    parameters: QuestionParameters,
    *,
    max_attempts: int,
) -> Answer:
    """A queued answer, in the caller's transaction.

    Raises:
        NotFound: no such collection of the tenant.
        EmptyInput: the question has no letter or digit.
        TooLong: it is longer than any window.
    """
    CollectionRepository(session, principal.tenant_id).get(collection_id)
    if not any(character.isalnum() for character in question):
        raise EmptyInput("The question is empty.", remedy="Ask something in `question`.")
    if len(question) > MAX_QUESTION_CHARACTERS:
        raise TooLong(
            f"The question has {len(question):,} characters; at most {MAX_QUESTION_CHARACTERS:,} fit.",
            remedy="Upload long text as a document and ask about it.",
            num_characters=len(question),
        )
    job = JobRepository(session, principal.tenant_id).create(
        ANSWER_KIND,
        queue="interactive",
        payload={},
        collection_id=collection_id,
        key_id=principal.key_id,
        max_attempts=max_attempts,
    )
    return AnswerRepository(session, principal.tenant_id).create(
        JobId(job.id),
        collection_id,
        question=question.replace("\x00", ""),
        parameters=asdict(parameters),
    )
