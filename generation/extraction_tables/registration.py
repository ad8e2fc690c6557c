"""Accepting an extraction: one transaction makes it, its rows and its job.

Used by the API, so it imports no model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy.orm import Session

from accounting.holds import reserve
from core.errors import EmptyInput, TooLarge, TooLong
from core.ids import CollectionId, JobId
from generation.extraction_tables.columns import columns_of
from retrieval.filters import DocumentFilter
from storage.collections import CollectionRepository
from storage.documents import DocumentRepository
from storage.extractions import ExtractionRepository
from storage.jobs import JobRepository
from storage.models import Extraction
from tenancy.principal import Principal

EXTRACT_KIND = "extract"
MAX_DOCUMENTS = 10_000
MAX_INSTRUCTION_CHARACTERS = 2_000

Method = Literal["auto", "rule", "choice", "fill"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionParameters:
    """`schema`: its properties are the columns. `method`: `rule` takes the likeliest phrase of the best
    sentences, `choice` has the model choose among such, `fill` has it fill the schema from what was found
    and holds that against the document; `auto`: as fits the model."""

    schema: Mapping[str, Any]
    instructions: str = ""
    filter: DocumentFilter = field(default_factory=DocumentFilter)
    method: Method = "auto"
    num_passages: int | None = None
    max_repairs: int | None = None

    def as_json(self) -> dict[str, Any]:
        """For `Extraction.parameters`."""
        return {
            "schema": self.schema,
            "instructions": self.instructions,
            "filter": self.filter.as_json(),
            "method": self.method,
            "num_passages": self.num_passages,
            "max_repairs": self.max_repairs,
        }

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> ExtractionParameters:
        """What `as_json` gave."""
        return cls(**dict(stored) | {"filter": DocumentFilter.of_json(stored["filter"])})


def register_extraction(
    session: Session,
    principal: Principal,
    collection_id: CollectionId,
    parameters: ExtractionParameters,
    *,
    max_attempts: int,
) -> Extraction:
    """A queued extraction of the documents that are ready now, in the caller's transaction.

    Raises:
        InvalidInput: the schema is none, cannot be enforced, or has a column that no cell can fill.
        NotFound: no such collection of the tenant, or no such document in it.
        EmptyInput: no ready document meets the filter.
        TooLarge: more do than one table takes.
        TooLong: so are the instructions.
        BudgetExceeded: a budget that it counts against has nothing left.
    """
    columns_of(parameters.schema)
    if len(parameters.instructions) > MAX_INSTRUCTION_CHARACTERS:
        raise TooLong(
            f"The instructions have {len(parameters.instructions):,} characters; "
            f"{MAX_INSTRUCTION_CHARACTERS:,} are taken.",
            remedy="Describe each column in the schema instead.",
        )
    CollectionRepository(session, principal.tenant_id).get(collection_id)
    wanted = parameters.filter
    documents = DocumentRepository(session, principal.tenant_id).find_filtered(
        collection_id,
        document_ids=wanted.document_ids,
        tags=wanted.tags,
        uploaded_from=wanted.uploaded_from,
        uploaded_before=wanted.uploaded_before,
    )
    if not documents:
        raise EmptyInput(
            f"No ready document of collection {collection_id} meets the filter.",
            remedy="Upload some, wait until they are ready, or widen the filter.",
        )
    if len(documents) > MAX_DOCUMENTS:
        raise TooLarge(
            f"{len(documents):,} documents meet the filter; {MAX_DOCUMENTS:,} are taken.",
            remedy="Narrow the filter and make several tables.",
        )
    job = JobRepository(session, principal.tenant_id).create(
        EXTRACT_KIND,
        queue="batch",
        payload={},
        collection_id=collection_id,
        key_id=principal.key_id,
        max_attempts=max_attempts,
    )
    reserve(session, job)
    return ExtractionRepository(session, principal.tenant_id).create(
        JobId(job.id), collection_id, parameters=parameters.as_json(), document_ids=documents
    )
