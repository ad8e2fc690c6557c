"""The documents and the questions that cost most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from accounting.calendar import Interval, parse_interval
from accounting.ledger_sums import Amounts, LedgerSum, sum_ledger
from accounting.price_table import find_currency
from accounting.reports import one_currency
from core.ids import TenantId
from storage.answers import ANSWER_KIND
from storage.models import Answer, Document

MAX_TOP = 100
_QUESTION_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class CostlyThing:
    """`text` is a document's name or what was asked; empty where it is gone."""

    id: str
    text: str
    amounts: Amounts


@dataclass(frozen=True, slots=True)
class TopCosts:
    """What cost most, the dearest first."""

    interval: Interval
    currency: str
    documents: tuple[CostlyThing, ...]
    questions: tuple[CostlyThing, ...]


def top_costs(
    session: Session,
    tenant_id: TenantId,
    *,
    start: date | datetime | None = None,
    end: date | datetime | None = None,
    time_zone: str = "UTC",
    limit: int = 10,
    use_rollups: bool = True,
    with_engine_cost: bool = True,
) -> TopCosts:
    """At most `limit` of each. A document's costs are those of reading and embedding it, and of computing it
    beforehand; a question's are those of all its stages.

    Raises:
        InvalidInput, Conflict: as `cost_report` does.
    """
    interval = parse_interval(start, end, time_zone)

    def rank(column: str, matching: Mapping[str, str]) -> list[LedgerSum]:
        found = sum_ledger(
            session,
            tenant_id,
            interval,
            columns=[column],
            matching=matching,
            num_top=limit,
            use_rollups=use_rollups,
        )
        if with_engine_cost:
            return found
        return [replace(each, amounts=each.amounts.without_engine_cost()) for each in found]

    documents, questions = rank("document_id", {}), rank("job_id", {"job_kind": ANSWER_KIND})
    return TopCosts(
        interval,
        one_currency([*documents, *questions]) or find_currency(session),
        _named(documents, "document_id", _document_names(session, tenant_id, documents)),
        _named(questions, "job_id", _questions(session, tenant_id, questions)),
    )


def _document_names(
    session: Session, tenant_id: TenantId, sums: Sequence[LedgerSum]
) -> dict[str, tuple[str, str]]:
    ids = [each.columns["document_id"] for each in sums]
    rows = session.execute(
        select(Document.id, Document.name).where(Document.tenant_id == tenant_id, Document.id.in_(ids))
    )
    return {row.id: (row.id, row.name) for row in rows}


def _questions(
    session: Session, tenant_id: TenantId, sums: Sequence[LedgerSum]
) -> dict[str, tuple[str, str]]:
    """Ids and texts of answers by the ids of their jobs."""
    ids = [each.columns["job_id"] for each in sums]
    rows = session.execute(
        select(Answer.job_id, Answer.id, Answer.question).where(
            Answer.tenant_id == tenant_id, Answer.job_id.in_(ids)
        )
    )
    return {row.job_id: (row.id, row.question[:_QUESTION_CHARACTERS]) for row in rows}


def _named(
    sums: Sequence[LedgerSum], column: str, known: Mapping[str, tuple[str, str]]
) -> tuple[CostlyThing, ...]:
    found = []
    for each in sums:
        identifier, text = known.get(each.columns[column], (each.columns[column], ""))
        found.append(CostlyThing(identifier, text, each.amounts))
    return tuple(found)
