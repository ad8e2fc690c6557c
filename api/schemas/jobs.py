from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from api.schemas.base import Failure, View, failure
from storage import models

JobStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]
FileStatus = Literal["queued", "parsing", "embedding", "ready", "duplicate", "failed"]


class FileProgress(View):
    pages_done: int = Field(description="Pages read.")
    pages_total: int = Field(description="Pages to read; 0 until known.")
    chunks_done: int = Field(description="Pieces embedded.")
    chunks_total: int = Field(description="Pieces to embed; 0 until known.")


class File(View):
    """A file of an upload and what became of it."""

    id: str = Field(description="`file_…`")
    name: str = Field(description="Its name, without any path or control characters.")
    status: FileStatus = Field(description="`duplicate`: the collection had the same bytes already.")
    num_bytes: int = Field(description="Bytes received.")
    document_id: str | None = Field(description="The document it became, or was already.")
    progress: FileProgress = Field(description="How far it has come.")
    error: Failure | None = Field(description="Why it failed; null otherwise.")

    @classmethod
    def of(cls, row: models.UploadedFile) -> File:
        return cls(
            id=row.id,
            name=row.name,
            status=row.status,  # type: ignore[arg-type]  # the column holds nothing else
            num_bytes=row.num_bytes,
            document_id=row.document_id,
            progress=FileProgress(
                pages_done=row.pages_done,
                pages_total=row.pages_total,
                chunks_done=row.chunks_done,
                chunks_total=row.chunks_total,
            ),
            error=failure(row.error_code, row.error_detail),
        )


class Job(View):
    """Work that goes on after the response."""

    id: str = Field(description="`job_…`")
    kind: str = Field(description="What it does: `ingest`, `answer`, …")
    queue: str = Field(description="The queue it runs in.")
    status: JobStatus = Field(description="The last three are final.")
    collection_id: str | None = Field(description="The collection it works on.")
    schedule_id: str | None = Field(description="The schedule that began it, or began what it is part of.")
    progress: dict[str, Any] = Field(description="For `ingest`: `files_done` of `files_total`, and more.")
    attempt: int = Field(description="How often it was started.")
    max_attempts: int = Field(description="How often it may be, while no worker's fault passes.")
    version: int = Field(description="Counts its changes; the id of its events.")
    error: Failure | None = Field(description="Why it failed; null otherwise.")
    created_at: datetime = Field(description="When it was accepted.")
    started_at: datetime | None = Field(description="When its latest attempt began.")
    finished_at: datetime | None = Field(description="When it ended.")
    deadline_at: datetime | None = Field(description="When it fails unless it has ended; null: never.")
    files: list[File] | None = Field(None, description="For `ingest`, when asked for by its id.")
    answer_id: str | None = Field(None, description="For `answer`: what it writes.")

    @classmethod
    def of(
        cls,
        row: models.Job,
        *,
        files: Sequence[models.UploadedFile] | None = None,
        answer_id: str | None = None,
    ) -> Job:
        return cls(
            id=row.id,
            kind=row.kind,
            queue=row.queue,
            status=row.status,  # type: ignore[arg-type]  # the column holds nothing else
            collection_id=row.collection_id,
            schedule_id=row.schedule_id,
            progress=row.progress,
            attempt=row.attempt,
            max_attempts=row.max_attempts,
            version=row.version,
            error=failure(row.error_code, row.error_detail),
            created_at=row.created_at,
            started_at=row.started_at,
            finished_at=row.finished_at,
            deadline_at=row.deadline_at,
            files=None if files is None else [File.of(file) for file in files],
            answer_id=answer_id,
        )


class Upload(View):
    """An accepted upload: its job and one entry per file, in the order of the request."""

    job: Job = Field(description="Follow it at `Location`.")
    files: list[File] = Field(description="Files refused while they came in have `status` `failed`.")
