"""Accepting a summary: one transaction makes it, its documents' rows and its job.

Used by the API, so it imports no model.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Session

from accounting.holds import reserve
from core.errors import EmptyInput, InvalidInput, TooLarge
from core.ids import CollectionId, DocumentId, JobId, TenantId
from generation.summaries.parameters import SummaryParameters, check_parameters
from storage.collections import CollectionRepository
from storage.documents import DocumentRepository
from storage.jobs import JobRepository
from storage.models import Summary
from storage.summaries import SummaryRepository
from tenancy.principal import Principal

SUMMARIZE_KIND = "summarize"
MAX_DOCUMENTS = 10_000
MAX_NAMED = 100
"""Documents that are not ready are named up to so many."""


def register_summary(
    session: Session,
    principal: Principal,
    collection_id: CollectionId,
    parameters: SummaryParameters,
    *,
    max_attempts: int,
) -> Summary:
    """A queued summary of the documents that are ready now, in the caller's transaction.

    Raises:
        InvalidInput: parameters that contradict each other, or `refine` of several documents.
        NotFound: no such collection of the tenant, or no such document in it.
        EmptyInput: no ready document meets the filter.
        TooLarge: more do than one summary takes.
        TooLong: so is the prompt.
        BudgetExceeded: a budget that it counts against has nothing left.
    """
    tenant_id = principal.tenant_id
    document_ids = documents_to_read(session, tenant_id, collection_id, parameters)
    job = JobRepository(session, tenant_id).create(
        SUMMARIZE_KIND,
        queue="batch",
        payload={},
        collection_id=collection_id,
        key_id=principal.key_id,
        max_attempts=max_attempts,
    )
    reserve(session, job)
    return SummaryRepository(session, tenant_id).create(
        JobId(job.id),
        collection_id,
        definition=parameters.definition(collection_id),
        parameters=parameters.as_json(),
        document_ids=document_ids,
        not_ready=_not_ready(session, tenant_id, collection_id, parameters),
    )


def documents_to_read(
    session: Session, tenant_id: TenantId, collection_id: CollectionId, parameters: SummaryParameters
) -> list[DocumentId]:
    """The ready documents that meet the filter, oldest first; raises as `register_summary` does."""
    check_parameters(parameters)
    CollectionRepository(session, tenant_id).get(collection_id)
    found = _find(session, tenant_id, collection_id, parameters, ready=True)
    if not found:
        raise EmptyInput(
            f"No ready document of collection {collection_id} meets the filter.",
            remedy="Upload some, wait until they are ready, or widen the filter.",
            collection_id=collection_id,
        )
    if len(found) > MAX_DOCUMENTS:
        raise TooLarge(
            f"{len(found):,} documents meet the filter; {MAX_DOCUMENTS:,} are taken.",
            remedy="Narrow the filter and make several summaries.",
        )
    if parameters.method == "refine" and len(found) > 1:
        raise InvalidInput(
            f"Method `refine` carries one summary through one document, and {len(found):,} meet the filter.",
            remedy="Name one in `filter.document_ids`, or use `map_reduce`.",
        )
    return found


def _not_ready(
    session: Session, tenant_id: TenantId, collection_id: CollectionId, parameters: SummaryParameters
) -> list[dict[str, Any]]:
    """Documents that meet the filter and will not be read, with their status."""
    documents = DocumentRepository(session, tenant_id)
    found = _find(session, tenant_id, collection_id, parameters, ready=False)[:MAX_NAMED]
    rows = [documents.get(document_id) for document_id in found]
    return [
        {"document_id": row.id, "document_name": row.name, "status": row.status, "code": row.error_code}
        for row in rows
    ]


def _find(
    session: Session,
    tenant_id: TenantId,
    collection_id: CollectionId,
    parameters: SummaryParameters,
    *,
    ready: bool,
) -> list[DocumentId]:
    wanted = parameters.filter
    return DocumentRepository(session, tenant_id).find_filtered(
        collection_id,
        document_ids=wanted.document_ids,
        tags=wanted.tags,
        uploaded_from=wanted.uploaded_from,
        uploaded_before=wanted.uploaded_before,
        ready=ready,
    )
