from __future__ import annotations

from datetime import datetime

from pydantic import Field

from api.schemas.base import Body, Name, View
from storage import models


class NewCollection(Body):
    name: Name = Field(description="Unique among the tenant's collections.")


class Collection(View):
    """Holds documents that are searched together."""

    id: str = Field(description="`col_…`")
    name: str = Field(description="Unique among the tenant's collections.")
    created_at: datetime = Field(description="When it was made.")
    num_documents: int = Field(description="Documents in it, whatever their status.")

    @classmethod
    def of(cls, row: models.Collection, *, num_documents: int) -> Collection:
        return cls(id=row.id, name=row.name, created_at=row.created_at, num_documents=num_documents)
