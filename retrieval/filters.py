"""Which documents of a collection a question is about."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from core.ids import DocumentId


@dataclass(frozen=True, slots=True)
class DocumentFilter:
    """Documents that meet every condition given; an empty condition lets all pass.

    `document_ids` and `tags` are met by any one of theirs. The moments bound `created_at`, when
    the document was first uploaded: at or after `uploaded_from`, before `uploaded_before`.
    """

    document_ids: tuple[DocumentId, ...] = ()
    tags: tuple[str, ...] = ()
    uploaded_from: datetime | None = None
    uploaded_before: datetime | None = None

    def __bool__(self) -> bool:
        return bool(self.document_ids or self.tags or self.uploaded_from or self.uploaded_before)
