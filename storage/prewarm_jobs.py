"""Jobs that compute beforehand what questions of a collection are likely to begin with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from core.ids import CollectionId, ConversationId, DocumentId, KeyId, TenantId
from storage.jobs import JobRepository
from storage.models import Answer, Document, Job

PREWARM_KIND = "prewarm"

Reason = Literal["ingest", "engine_start", "static"]


@dataclass(frozen=True, slots=True)
class SentPrompt:
    """How a finished answer's prompt began, and what was found cached of it.

    `prefix`: of the step of that name, `order` (keys of the passages) and `num_static`.
    """

    conversation_id: ConversationId | None
    mode: str
    prefix: Mapping[str, Any]
    cached_tokens: int
    finished_at: datetime


@dataclass(frozen=True, slots=True)
class PrewarmRun:
    """A prewarm job that has worked, and what it says of it."""

    tenant_id: TenantId
    collection_id: CollectionId
    progress: Mapping[str, Any]
    finished_at: datetime


def request_prewarm(
    session: Session,
    tenant_id: TenantId,
    collection_id: CollectionId,
    *,
    reason: Reason,
    max_attempts: int,
    key_id: KeyId | None = None,
) -> None:
    """Queue a prewarm of the collection unless one is queued."""
    jobs = JobRepository(session, tenant_id)
    if jobs.has_queued(PREWARM_KIND, collection_id):
        return
    jobs.create(
        PREWARM_KIND,
        queue="batch",
        payload={"reason": reason},
        collection_id=collection_id,
        key_id=key_id,
        max_attempts=max_attempts,
    )


class PromptHeads:
    """What prompts of a tenant began with."""

    def __init__(self, session: Session, tenant_id: TenantId) -> None:
        self._session = session
        self._tenant_id = tenant_id

    def list_sent(self, collection_id: CollectionId, *, since: datetime, limit: int) -> list[SentPrompt]:
        """The collection's written answers accepted since then, newest first."""
        query = (
            select(
                Answer.conversation_id,
                Answer.mode,
                Answer.steps["prefix"].label("prefix"),
                Answer.steps["context"].label("context"),
                Answer.cached_tokens,
                Answer.finished_at,
            )
            .where(
                Answer.tenant_id == self._tenant_id,
                Answer.collection_id == collection_id,
                Answer.created_at >= since,
                Answer.finished_at.is_not(None),
                Answer.mode != "extractive",
            )
            .order_by(Answer.created_at.desc(), Answer.id.desc())
            .limit(limit)
        )
        return [
            SentPrompt(
                ConversationId(row.conversation_id) if row.conversation_id else None,
                row.mode,
                row.prefix or _prefix_of(row.context or {}),
                # Of an answer that was written several times the first prompt counts.
                (row.prefix or {}).get("cached_tokens", row.cached_tokens),
                row.finished_at,
            )
            for row in self._session.execute(query)
        ]

    def list_static(self, collection_id: CollectionId) -> list[DocumentId]:
        """Ready documents of the collection that are marked static, oldest first."""
        query = (
            select(Document.id)
            .where(
                Document.tenant_id == self._tenant_id,
                Document.collection_id == collection_id,
                Document.status == "ready",
                Document.is_static.is_(True),
                Document.deleted_at.is_(None),
            )
            .order_by(Document.created_at, Document.id)
        )
        return [DocumentId(document_id) for document_id in self._session.scalars(query)]

    def weigh_collections(self, *, since: datetime) -> dict[CollectionId, int]:
        """For each collection with something to prewarm: written answers since then, plus one for each
        static document."""
        asked = (
            _asked(since, Answer.collection_id)
            .where(Answer.tenant_id == self._tenant_id)
            .group_by(Answer.collection_id)
        )
        static = (
            _static(Document.collection_id)
            .where(Document.tenant_id == self._tenant_id)
            .group_by(Document.collection_id)
        )
        weights: dict[CollectionId, int] = {}
        for query in (asked, static):
            for name, count in self._session.execute(query):
                weights[CollectionId(name)] = weights.get(CollectionId(name), 0) + count
        return weights


def weigh_all(session: Session, *, since: datetime) -> int:
    """What `PromptHeads.weigh_collections` comes to for all collections of all tenants."""
    return sum(session.execute(query).scalar_one() for query in (_asked(since), _static()))


def _asked(since: datetime, *columns: InstrumentedAttribute[str]) -> Any:
    return select(*columns, func.count()).where(
        Answer.created_at >= since, Answer.finished_at.is_not(None), Answer.mode != "extractive"
    )


def _static(*columns: InstrumentedAttribute[str]) -> Any:
    return select(*columns, func.count()).where(
        Document.status == "ready", Document.is_static.is_(True), Document.deleted_at.is_(None)
    )


def _prefix_of(context: Mapping[str, Any]) -> Mapping[str, Any]:
    """That of a prompt which was not planned: a document asked for whole, or marked static, is all."""
    if context.get("context") != "whole" or not context.get("document_id"):
        return {}
    return {"order": [f"whole:{context['document_id']}"], "num_static": 1}


def list_prewarm_runs(session: Session, *, since: datetime, limit: int) -> list[PrewarmRun]:
    """All tenants' prewarm jobs that ended well since then, newest first."""
    query = (
        select(Job)
        .where(Job.kind == PREWARM_KIND, Job.status == "succeeded", Job.finished_at >= since)
        .order_by(Job.finished_at.desc())
        .limit(limit)
    )
    return [
        PrewarmRun(TenantId(job.tenant_id), CollectionId(job.collection_id), job.progress, job.finished_at)
        for job in session.scalars(query)
        if job.collection_id is not None and job.finished_at is not None
    ]
