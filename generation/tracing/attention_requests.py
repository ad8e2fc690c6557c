"""Asking for the attention of an answer's tokens. Loads no model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from accounting.holds import reserve
from core.errors import Conflict
from core.ids import AnswerId, CollectionId
from storage.answer_traces import AnswerTraceRepository
from storage.answers import AnswerRepository
from storage.jobs import JobRepository
from storage.models import Job
from tenancy.principal import Principal

ATTENTION_KIND = "trace_attention"

_REMEDY = "Ask the question again with `trace` true, in a mode in which the model writes."


@dataclass(frozen=True, slots=True)
class AttentionInputs:
    """What is read again: token ids, and the parts of prompt and answer that shares are told of.

    `passages` are ids, with the position of each one's segment in `segment_ends`.
    """

    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    segment_ends: tuple[int, ...]
    passages: tuple[tuple[str, int], ...]
    generation: dict[str, Any]


def attention_inputs(answer_id: str, trace: dict[str, Any], *, is_redacted: bool) -> AttentionInputs:
    """What of a trace attention is computed from.

    Raises:
        Conflict: the trace has no tokens, or no longer.
    """
    if is_redacted:
        raise Conflict(f"The trace of answer {answer_id} is redacted: its tokens are gone.", remedy=_REMEDY)
    if trace["answer_generation"] is None:
        raise Conflict(f"No model wrote answer {answer_id}.", remedy=_REMEDY)
    generation = trace["generations"][trace["answer_generation"]]
    segments = generation["prompt"]["segments"]
    answer = [token["token_id"] for token in generation["tokens"]]
    if not answer or None in answer or not all("token_ids" in segment for segment in segments):
        raise Conflict(f"The trace of answer {answer_id} has no token ids.", remedy=_REMEDY)
    return AttentionInputs(
        prompt=tuple(token_id for segment in segments for token_id in segment["token_ids"]),
        answer=tuple(answer),
        segment_ends=tuple(segment["end"] for segment in segments),
        passages=tuple(
            (segment["source_ids"][0], position)
            for position, segment in enumerate(segments)
            if segment["kind"] == "passage"
        ),
        generation=generation,
    )


def request_attention(
    session: Session, principal: Principal, answer_id: AnswerId, *, max_attempts: int
) -> Job:
    """A queued job that puts attention into the answer's trace, in the caller's transaction.

    Raises:
        NotFound: no such answer of the tenant, or it has no trace.
        Conflict: the trace has no tokens.
        BudgetExceeded: a budget that it counts against has nothing left.
    """
    answer = AnswerRepository(session, principal.tenant_id).get(answer_id)
    row = AnswerTraceRepository(session, principal.tenant_id).get(answer_id)
    attention_inputs(answer_id, row.trace, is_redacted=row.redacted_at is not None)
    job = JobRepository(session, principal.tenant_id).create(
        ATTENTION_KIND,
        queue="batch",
        payload={"answer_id": answer_id},
        collection_id=CollectionId(answer.collection_id),
        key_id=principal.key_id,
        max_attempts=max_attempts,
    )
    reserve(session, job)
    return job
