from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import Field

from accounting.money import format_amount
from api.batch_file import parse_batch_file
from api.schemas.answers import Cost, Usage
from api.schemas.base import Body, Failure, Name, View, failure
from storage import models
from storage.batches import Spending, StoppedBy

MAX_STORED_QUESTIONS = 5_000
MAX_LIFE_SECONDS = 31 * 86_400

BatchCost = Annotated[Decimal, Field(gt=0, max_digits=18, decimal_places=10)]

BatchStatus = Literal[
    "validating",
    "in_progress",
    "finalizing",
    "completed",
    "failed",
    "cancelling",
    "cancelled",
    "expired",
]


class StoredBatch(Body):
    """A file of questions that is kept, to be asked again and again."""

    collection_id: str = Field(max_length=100, description="The collection to ask.")
    name: Name = Field("questions", description="For people.")
    questions: list[dict[str, Any]] = Field(
        min_length=1,
        max_length=MAX_STORED_QUESTIONS,
        description="As the lines of a batch's file: `custom_id`, `question`, and what else a question may set.",
    )
    max_cost: BatchCost | None = Field(
        None, description="No question is asked once the answers cost so much."
    )
    expires_after_seconds: int | None = Field(
        None, ge=1, le=MAX_LIFE_SECONDS, description="What is not answered by then, is not."
    )

    def order(self) -> dict[str, Any]:
        """As a schedule keeps it.

        Raises:
            InvalidInput: questions are wrong; the fault's line is the question's place among them.
        """
        file = "".join(json.dumps(question) + "\n" for question in self.questions).encode()
        lines = parse_batch_file(self.name, file, on_invalid="refuse")
        return {
            "collection_id": self.collection_id,
            "name": self.name,
            "lines": [line.as_json() for line in lines],
            "max_cost": None if self.max_cost is None else str(self.max_cost),
            "expires_after_seconds": self.expires_after_seconds,
        }


class RequestCounts(View):
    total: int = Field(description="Lines of the file.")
    completed: int = Field(description="Those answered or refused: lines of the output.")
    failed: int = Field(description="Those that have no answer: lines of the errors.")


class Batch(View):
    """A file of questions and how far its answers are."""

    id: str = Field(description="Stable.")
    object: Literal["batch"] = Field(description="Always `batch`.")
    endpoint: Literal["/v1/questions"] = Field(description="What each line asks.")
    job_id: str = Field(description="The job that has them answered.")
    collection_id: str = Field(description="The collection that is asked.")
    name: str = Field(description="For people; the file's name unless another was given.")
    status: BatchStatus = Field(
        description="`validating`: accepted, and not begun. `finalizing`: all lines are done, the batch is being "
        "closed. `expired`: its time ended first."
    )
    stopped_by: StoppedBy | None = Field(
        description="What ended it before all was asked: its time or its cost; else null."
    )
    request_counts: RequestCounts = Field(description="Lines by what became of them.")
    usage: Usage = Field(description="Tokens that its answers took so far.")
    cost: Cost | None = Field(description="What its answers cost so far; null before the first.")
    max_cost: str | None = Field(description="No question is asked once its answers cost so much.")
    error: Failure | None = Field(description="Why the whole batch failed; null otherwise.")
    created_at: datetime = Field(description="When it was accepted.")
    in_progress_at: datetime | None = Field(description="When its job last began.")
    expires_at: datetime | None = Field(description="What is not answered then, is not.")
    finished_at: datetime | None = Field(description="When it ended, however it did.")

    @classmethod
    def of(cls, row: models.Batch, job: models.Job, spent: Spending) -> Batch:
        return cls(
            id=row.id,
            object="batch",
            endpoint="/v1/questions",
            job_id=row.job_id,
            collection_id=row.collection_id,
            name=row.name,
            status=status_of(row, job),
            stopped_by=row.stopped_by,  # type: ignore[arg-type]  # the column holds nothing else
            request_counts=RequestCounts(
                total=row.num_questions, completed=row.num_completed, failed=row.num_failed
            ),
            usage=Usage(
                prompt_tokens=spent.usage.prompt_tokens,
                cached_tokens=spent.usage.cached_tokens,
                completion_tokens=spent.usage.completion_tokens,
            ),
            cost=Cost(amount=format_amount(spent.cost), currency=spent.currency) if spent.currency else None,
            max_cost=None if row.max_cost is None else format_amount(row.max_cost),
            error=failure(job.error_code, job.error_detail),
            created_at=row.created_at,
            in_progress_at=job.started_at,
            expires_at=row.expires_at,
            finished_at=row.finished_at,
        )


def status_of(row: models.Batch, job: models.Job) -> BatchStatus:
    """Of the batch, in OpenAI's words."""
    if job.status == "succeeded":
        return "expired" if row.stopped_by == "expired" else "completed"
    if job.status == "failed":
        return "failed"
    if job.status == "cancelled":
        return "cancelled"
    if job.cancel_requested_at is not None:
        return "cancelling"
    if job.started_at is None:
        return "validating"
    is_done = row.num_completed + row.num_failed == row.num_questions
    return "finalizing" if is_done else "in_progress"
