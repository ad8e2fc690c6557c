from __future__ import annotations

from collections.abc import Set
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from accounting.money import format_amount
from api.schemas.answers import Citation, Cost, Statement
from api.schemas.base import Body, Failure, FreeText, View, failure
from api.schemas.jobs import JobStatus
from api.schemas.questions import Filter
from generation.sampling import Length
from generation.summaries.parameters import (
    MAX_LENGTH_TOKENS,
    MIN_LENGTH_TOKENS,
    Method,
    Style,
    SummaryLanguage,
    SummaryParameters,
    Unsupported,
    Writer,
)
from storage import models
from storage.summaries import PagesRead

_MAX_TOKENS = 10_000_000_000

Format = Literal["json", "markdown", "html"]


class NewSummary(Body):
    """A summary of a collection's ready documents, or of those that a filter lets pass. Asked for again,
    it is the next version: what did not change since costs nothing."""

    model_config = ConfigDict(extra="forbid")

    collection_id: str = Field(max_length=100, description="The collection to read.")
    filter: Filter = Field(
        default_factory=lambda: Filter.model_validate({}), description="Which documents; left out: all."
    )
    style: Style = Field(
        "summary",
        description="`summary`: running text. `key_points`: a list. `changes_since_last`: what the documents "
        "say that they did not say to the last version. `prompt`: what `prompt` asks for.",
    )
    prompt: FreeText = Field(
        "", description="Own instructions; `{language}`, `{length}` and `{title}` are filled in."
    )
    writer: Writer = Field(
        "auto",
        description="`extractive`: sentences of the documents, word for word. `abstractive`: the model "
        "writes, and each statement is tied to what supports it. `auto`: as fits the model.",
    )
    method: Method = Field(
        "map_reduce",
        description="`map_reduce`: sections, then documents, then all. `refine`: one summary is carried "
        "through a single long narrative.",
    )
    length: Length = Field("paragraph", description="About 100, 300 or 1,000 tokens.")
    length_tokens: int | None = Field(
        None, ge=MIN_LENGTH_TOKENS, le=MAX_LENGTH_TOKENS, description="In place of `length`."
    )
    language: SummaryLanguage = Field("auto", description="`auto`: the documents' own.")
    unsupported: Unsupported = Field(
        "flag", description="Statements that nothing supports are flagged, or removed."
    )
    max_tokens: int | None = Field(
        None, ge=1, le=_MAX_TOKENS, description="Of all models together; the run stops before it."
    )
    max_cost: Annotated[Decimal, Field(ge=0, max_digits=16, decimal_places=10)] | None = Field(
        None, description="In the price book's currency; the run stops before it."
    )

    def parameters(self) -> SummaryParameters:
        return SummaryParameters(
            style=self.style,
            prompt=self.prompt,
            writer=self.writer,
            method=self.method,
            length=self.length,
            length_tokens=self.length_tokens,
            language=self.language,
            unsupported=self.unsupported,
            filter=self.filter.as_filter(),
            max_tokens=self.max_tokens,
            max_cost=self.max_cost,
        )

    def order(self) -> dict[str, Any]:
        """For a schedule; `bootstrap/schedulable_actions.py` reads it."""
        return {"collection_id": self.collection_id, "parameters": self.parameters().as_json()}


class Coverage(View):
    """What was read; page by page at `/documents`."""

    num_documents: int = Field(description="That were ready when it was asked for.")
    num_documents_done: int = Field(description="Of those, done so far.")
    num_pages: int = Field(description="Of these documents.")
    num_pages_read: int = Field(description="Read to the last character.")
    num_pages_empty: int = Field(description="With nothing on them.")
    share: float = Field(description="Of the pages that say anything: read.")
    not_ready: list[dict[str, Any]] = Field(
        description="Documents that met the filter and were not ready: `document_id`, `document_name`, "
        "`status`, `code`; up to 100."
    )


class Summary(View):
    """A run of a summary; `status` is its job's."""

    id: str = Field(description="`sum_…`")
    job_id: str = Field(description="The job that makes it; cancel it to stop.")
    collection_id: str = Field(description="The collection that is read.")
    status: JobStatus = Field(description="`succeeded`: the rest is filled in.")
    version: int = Field(description="From 1: runs of the same collection, filter and options.")
    parameters: dict[str, Any] = Field(description="As it was asked for.")
    outcome: Literal["complete", "capped"] | None = Field(
        description="`capped`: it stopped at its limit and has what was read till then. Null until finished."
    )
    writer: Literal["extractive", "abstractive"] | None = Field(description="Who wrote it.")
    text: str | None = Field(description="The summary, with `[n]` after what citation n supports.")
    statements: list[Statement] = Field(description="Its sentences, in order.")
    citations: list[Citation] = Field(description="By number.")
    since: dict[str, Any] | None = Field(
        description="Style `changes_since_last`: the version compared with, and documents added, removed and "
        "changed since."
    )
    warnings: list[str] = Field(description="Statements without support, and the like.")
    coverage: Coverage = Field(description="What was read.")
    num_nodes: int = Field(description="Summaries of parts that it is made of.")
    num_computed: int = Field(description="Of those, made by this run; the others were kept from before.")
    num_tokens: int = Field(description="Tokens it took, of all models together.")
    cost: Cost = Field(description="What it cost so far.")
    error: Failure | None = Field(description="Why it failed; null otherwise.")
    created_at: datetime = Field(description="When it was accepted.")
    finished_at: datetime | None = Field(description="When it ended.")

    @classmethod
    def of(cls, row: models.Summary, job: models.Job, pages: PagesRead, *, withdrawn: Set[str]) -> Summary:
        result = row.result
        return cls(
            id=row.id,
            job_id=row.job_id,
            collection_id=row.collection_id,
            status=job.status,  # type: ignore[arg-type]  # the column holds nothing else
            version=row.version,
            parameters=row.parameters,
            outcome=row.outcome,  # type: ignore[arg-type]  # the column holds nothing else
            writer=result.get("writer"),
            text=result.get("text"),
            statements=[Statement.model_validate(stored) for stored in result.get("statements", ())],
            citations=[
                Citation.model_validate(stored | {"withdrawn": stored["document_id"] in withdrawn})
                for stored in result.get("citations", ())
            ],
            since=result.get("since"),
            warnings=result.get("warnings", []),
            coverage=Coverage(
                num_documents=row.num_documents,
                num_documents_done=row.num_done,
                num_pages=pages.num_pages,
                num_pages_read=pages.num_read,
                num_pages_empty=pages.num_empty,
                share=pages.share,
                not_ready=row.not_ready,
            ),
            num_nodes=row.num_nodes,
            num_computed=row.num_computed,
            num_tokens=row.num_tokens,
            cost=Cost(amount=format_amount(row.cost), currency=row.currency),
            error=failure(job.error_code, job.error_detail),
            created_at=row.created_at,
            finished_at=row.finished_at or job.finished_at,
        )


class SummaryDocument(View):
    """One document's part in a summary."""

    position: int = Field(description="From 0.")
    document_id: str = Field(description="The document.")
    document_name: str = Field(description="Its name when the summary was asked for.")
    withdrawn: bool = Field(description="The document was deleted since; what was said of it stays.")
    statements: list[dict[str, Any]] = Field(
        description="What is said of it: `text`, and `quotes` with `start`, `end` and `text`."
    )
    num_pages: int = Field(description="Its pages.")
    num_pages_read: int = Field(description="Read to the last character.")
    skipped: list[dict[str, Any]] = Field(
        description="What was not read: `page`, or how many `pages`, and `reason`: `no_text`, `limit`, "
        "`deleted`, `not_indexed`."
    )
    finished_at: datetime | None = Field(description="When it was done.")

    @classmethod
    def of(cls, row: models.SummaryDocument, *, withdrawn: Set[str]) -> SummaryDocument:
        return cls(
            position=row.position,
            document_id=row.document_id,
            document_name=row.document_name,
            withdrawn=row.document_id in withdrawn,
            statements=row.statements,
            num_pages=row.num_pages,
            num_pages_read=row.num_pages_read,
            skipped=row.skipped,
            finished_at=row.finished_at,
        )


class ChangedStatement(View):
    before: str = Field(description="As it was said.")
    after: str = Field(description="As it is said.")


class SummaryDiff(View):
    """What `after` says and `before` did not, and the other way round."""

    before: str = Field(description="`sum_…`")
    after: str = Field(description="`sum_…`")
    added: list[str] = Field(description="Statements that are new.")
    removed: list[str] = Field(description="Statements that are gone.")
    changed: list[ChangedStatement] = Field(description="Statements that are said otherwise.")
    num_same: int = Field(description="Statements that stayed as they were.")
