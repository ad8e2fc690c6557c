"""How long a collection's chunks and documents are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from core.ids import CollectionId, DocumentId, TenantId
from storage.models import Chunk, Document


@dataclass(frozen=True, slots=True)
class CollectionSize:
    """Of the live chunks: how many, their mean length by either tokenizer, and the longest document's
    tokens for the generator."""

    num_chunks: int = 0
    mean_tokens: float = 0.0
    mean_generator_tokens: float = 0.0
    longest_document_tokens: int = 0


def collection_size(
    session: Session,
    tenant_id: TenantId,
    collection_id: CollectionId,
    *,
    document_ids: Sequence[DocumentId] = (),
) -> CollectionSize:
    """The size of the collection, or of those of its documents that are named."""
    documents = (
        select(
            func.count(Chunk.id).label("num_chunks"),
            func.sum(Chunk.num_tokens).label("tokens"),
            func.sum(Chunk.num_generator_tokens).label("generator_tokens"),
        )
        .join(Document, Document.id == Chunk.document_id)
        .where(
            Chunk.tenant_id == tenant_id,
            Chunk.collection_id == collection_id,
            Document.status == "ready",
            Document.deleted_at.is_(None),
            *((Document.id.in_(document_ids),) if document_ids else ()),
        )
        .group_by(Chunk.document_id)
        .subquery()
    )
    columns = documents.c
    num_chunks, tokens, generator_tokens, longest = session.execute(
        select(
            func.sum(columns.num_chunks),
            func.sum(columns.tokens),
            func.sum(columns.generator_tokens),
            func.max(columns.generator_tokens),
        )
    ).one()
    if not num_chunks:
        return CollectionSize()
    return CollectionSize(
        int(num_chunks), float(tokens) / num_chunks, float(generator_tokens) / num_chunks, int(longest)
    )
