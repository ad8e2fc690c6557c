from __future__ import annotations

from datetime import datetime

from pydantic import Field

from api.schemas.base import Body, Name, View
from api.schemas.keys import IssuedKey
from storage import models


class NewTenant(Body):
    name: Name = Field(description="Unique on this server.")


class Tenant(View):
    """Owns collections, keys and costs; nothing of it is visible to another."""

    id: str = Field(description="`ten_…`")
    name: str = Field(description="Unique on this server.")
    created_at: datetime = Field(description="When it was made.")

    @classmethod
    def of(cls, row: models.Tenant) -> Tenant:
        return cls(id=row.id, name=row.name, created_at=row.created_at)


class CreatedTenant(Tenant):
    """A new tenant with its first key, which may issue the others."""

    admin_key: IssuedKey = Field(description="Scope `admin`; its secret is shown this once.")
