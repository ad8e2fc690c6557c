"""Which documents of a collection a question is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

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

    def as_json(self) -> dict[str, Any]:
        return {
            "document_ids": list(self.document_ids),
            "tags": list(self.tags),
            "uploaded_from": self.uploaded_from and self.uploaded_from.isoformat(),
            "uploaded_before": self.uploaded_before and self.uploaded_before.isoformat(),
        }

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> DocumentFilter:
        """What `as_json` gave; `{}` is no filter."""
        return cls(
            document_ids=tuple(stored.get("document_ids") or ()),
            tags=tuple(stored.get("tags") or ()),
            uploaded_from=_moment(stored.get("uploaded_from")),
            uploaded_before=_moment(stored.get("uploaded_before")),
        )


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
