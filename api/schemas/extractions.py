from __future__ import annotations

from collections.abc import Set
from datetime import datetime
from typing import Any, Literal

from pydantic import ConfigDict, Field

from api.schemas.base import Body, Failure, FreeText, JsonObject, View, failure
from api.schemas.jobs import JobStatus
from api.schemas.questions import Filter
from generation.extraction_tables.registration import ExtractionParameters, Method
from storage import models


class NewExtraction(Body):
    """A table wanted of a collection: the schema's properties are its columns, documents its rows."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    collection_id: str = Field(max_length=100, description="The collection to read.")
    schema_: JsonObject = Field(
        alias="schema",
        description="A JSON schema of an object. A column is a text, a number, a truth value, a date "
        "(`format` `date`), one of an `enum`, or a list of such; its `description` says what to look for.",
    )
    instructions: FreeText = Field("", description="What holds for all columns, for the model.")
    filter: Filter = Field(
        default_factory=lambda: Filter.model_validate({}), description="Which documents; left out: all."
    )
    method: Method = Field(
        "auto",
        description="`rule`: the likeliest phrase of the best sentences. `choice`: the model chooses among "
        "such. `fill`: the model fills the schema, and what does not stand in the document is dropped. "
        "`auto`: `rule` for a small model, `fill` for a larger one.",
    )
    num_passages: int | None = Field(None, ge=1, le=50, description="Passages read for each column.")
    max_repairs: int | None = Field(
        None, ge=0, le=5, description="How often unfounded cells are asked for again."
    )

    def parameters(self) -> ExtractionParameters:
        return ExtractionParameters(
            schema=self.schema_,
            instructions=self.instructions,
            filter=self.filter.as_filter(),
            method=self.method,
            num_passages=self.num_passages,
            max_repairs=self.max_repairs,
        )

    def order(self) -> dict[str, Any]:
        """As a schedule keeps it."""
        return {"collection_id": self.collection_id, "parameters": self.parameters().as_json()}


class Extraction(View):
    """A table in the making, or made; `status` is its job's."""

    id: str = Field(description="`ext_…`")
    job_id: str = Field(description="The job that fills it; cancel it to stop. Rows that are filled stay.")
    collection_id: str = Field(description="The collection that is read.")
    status: JobStatus = Field(description="`succeeded`: every row is done.")
    columns: list[str] = Field(description="In the table's order.")
    parameters: dict[str, Any] = Field(description="As it was asked for.")
    num_documents: int = Field(description="Rows.")
    num_done: int = Field(description="Rows done so far.")
    error: Failure | None = Field(description="Why it failed; null otherwise.")
    created_at: datetime = Field(description="When it was accepted.")
    finished_at: datetime | None = Field(description="When it ended.")

    @classmethod
    def of(cls, row: models.Extraction, job: models.Job) -> Extraction:
        return cls(
            id=row.id,
            job_id=row.job_id,
            collection_id=row.collection_id,
            status=job.status,  # type: ignore[arg-type]  # the column holds nothing else
            columns=list(row.parameters["schema"]["properties"]),
            parameters=row.parameters,
            num_documents=row.num_documents,
            num_done=row.num_done,
            error=failure(job.error_code, job.error_detail),
            created_at=row.created_at,
            finished_at=row.finished_at or job.finished_at,
        )


class ExtractionRow(View):
    """One document's row."""

    position: int = Field(description="From 0.")
    document_id: str = Field(description="The document.")
    document_name: str = Field(description="Its name when the table was asked for.")
    withdrawn: bool = Field(description="The document was deleted since; what was found in it stays.")
    outcome: Literal["filled", "partial", "empty", "failed"] | None = Field(
        description="Whether every cell, some or none has a value; `failed`: it could not be read. Null: open."
    )
    cells: dict[str, dict[str, Any]] = Field(
        description="By column: `value`, and where the document states it: `text` as it is written there, "
        "`start`, `end`, `citation` with quote, pages and boxes. Or `value` null with `reason` (`not_found`, "
        "`not_stated`, `not_in_document`, `wrong_type`, `needs_model`) and `detail`."
    )
    trail: list[dict[str, Any]] = Field(
        description="What was tried, what was wrong with it and what it took; last, what the row cost."
    )
    finished_at: datetime | None = Field(description="When it was done.")

    @classmethod
    def of(cls, row: models.ExtractionRow, *, withdrawn: Set[str]) -> ExtractionRow:
        return cls(
            position=row.position,
            document_id=row.document_id,
            document_name=row.document_name,
            withdrawn=row.document_id in withdrawn,
            outcome=row.outcome,  # type: ignore[arg-type]  # the column holds nothing else
            cells=row.cells,
            trail=row.trail,
            finished_at=row.finished_at,
        )
