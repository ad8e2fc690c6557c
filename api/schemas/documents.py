from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from pydantic import Field, model_validator

from api.schemas.base import Body, Failure, FreeText, View, failure
from storage import models
from storage.tags import MAX_TAG_CHARACTERS, MAX_TAGS

DocumentStatus = Literal["processing", "ready", "failed"]


class Document(View):
    """Distinct content of a collection, whatever names it was uploaded under."""

    id: str = Field(description="`doc_…`")
    collection_id: str = Field(description="The collection that holds it.")
    name: str = Field(description="The name it first came under.")
    names: list[str] = Field(description="Every name it came under, oldest first.")
    tags: list[str] = Field(description="The words put on it to filter by, in lower case, sorted.")
    static: bool = Field(
        description="Whether what the engine computes of it is kept, so that it outlives a restart."
    )
    title: str = Field(description="The title it gives itself; may be empty.")
    status: DocumentStatus = Field(description="Only a `ready` document is searched.")
    media_type: str = Field(description="What its content is, found by looking; empty until parsed.")
    num_bytes: int = Field(description="Size of the file.")
    num_pages: int = Field(description="Pages; 1 for formats without any.")
    num_chunks: int = Field(description="Pieces that are searched.")
    num_characters: int = Field(description="Length of its text; offsets of citations count in it.")
    warnings: list[str] = Field(description="What was noticed while reading it.")
    error: Failure | None = Field(description="Why it failed; null otherwise.")
    created_at: datetime = Field(description="When it first arrived.")
    indexed_at: datetime | None = Field(description="When it became searchable.")

    @classmethod
    def of(cls, row: models.Document, *, names: Sequence[str], tags: Sequence[str]) -> Document:
        return cls(
            id=row.id,
            collection_id=row.collection_id,
            name=row.name,
            names=list(names) or [row.name],
            tags=list(tags),
            static=row.is_static,
            title=row.title,
            status=row.status,  # type: ignore[arg-type]  # the column holds nothing else
            media_type=row.media_type,
            num_bytes=row.num_bytes,
            num_pages=row.num_pages,
            num_chunks=row.num_chunks,
            num_characters=row.num_characters,
            warnings=row.warnings,
            error=failure(row.error_code, row.error_detail),
            created_at=row.created_at,
            indexed_at=row.indexed_at,
        )


class DocumentChange(Body):
    """What of a document can be changed; at least one of these."""

    tags: list[FreeText] = Field(
        default_factory=list,
        description=(
            "The tags it has from now on, in place of those it had; `[]` takes all off. "
            f"At most {MAX_TAGS}, of at most {MAX_TAG_CHARACTERS} characters each, without commas; "
            "kept in lower case."
        ),
        examples=[["合同", "2026"]],
    )
    static: bool = Field(
        False,
        strict=True,
        description=(
            "Whether it is static: it then goes whole into the prompt of questions about it where it fits, "
            "and what the engine computes of it is kept on disk."
        ),
    )

    @model_validator(mode="after")
    def _is_not_empty(self) -> DocumentChange:
        if not self.model_fields_set:
            raise ValueError("give `tags`, `static`, or both")
        return self


class DocumentText(View):
    """A stretch of a document's text, which is its pages' texts joined in order."""

    document_id: str = Field(description="The document.")
    start: int = Field(description="Offset of the first character given.")
    end: int = Field(description="Offset after the last character given.")
    num_characters: int = Field(description="Length of the whole text.")
    text: str = Field(description="The characters from `start` to `end`.")
