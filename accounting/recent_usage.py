"""What answers like the one to come used, from the ledger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from accounting.stages import Stage
from core.ids import CollectionId, TenantId
from storage.models import Answer, LedgerEntry


@dataclass(frozen=True, slots=True)
class AnswerUse:
    """One finished answer: tokens by the stage that prices them, and its timings."""

    tokens: Mapping[Stage, int]
    timings: Mapping[str, float]


def list_similar_uses(
    session: Session,
    tenant_id: TenantId,
    collection_id: CollectionId,
    *,
    mode: str,
    num_samples: int = 1,
    limit: int,
) -> list[AnswerUse]:
    """The tenant's newest finished answers of the collection in that mode, drawn as often; what failed
    attempts burned is left out."""
    number = Answer.parameters["n"].as_integer()
    answers = session.execute(
        select(Answer.id, Answer.timings)
        .where(
            Answer.tenant_id == tenant_id,
            Answer.collection_id == collection_id,
            Answer.mode == mode,
            Answer.finished_at.is_not(None),
            number == num_samples if num_samples > 1 else or_(number.is_(None), number == 1),
        )
        .order_by(Answer.created_at.desc(), Answer.id.desc())
        .limit(limit)
    ).all()
    tokens: defaultdict[str, dict[Stage, int]] = defaultdict(dict)
    sums = session.execute(
        select(LedgerEntry.source, LedgerEntry.price_stage, func.sum(LedgerEntry.num_tokens))
        .where(
            LedgerEntry.tenant_id == tenant_id,
            LedgerEntry.source.in_([answer.id for answer in answers]),
            LedgerEntry.billed,
        )
        .group_by(LedgerEntry.source, LedgerEntry.price_stage)
    )
    for source, stage, num_tokens in sums:
        tokens[source][Stage(stage)] = int(num_tokens)
    return [AnswerUse(tokens[answer.id], answer.timings) for answer in answers if answer.id in tokens]
