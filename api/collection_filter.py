"""Lists that may be kept to one collection."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from sqlalchemy.orm import Session

from core.ids import CollectionId, TenantId
from storage.collections import CollectionRepository

OfCollection = Annotated[str | None, Query(max_length=100, description="Only those of this collection.")]


def find_wanted(session: Session, tenant_id: TenantId, collection_id: str | None) -> CollectionId | None:
    """The collection that is asked for; None: all of them.

    Raises:
        NotFound: the tenant has no such collection.
    """
    if collection_id is None:
        return None
    wanted = CollectionId(collection_id)
    CollectionRepository(session, tenant_id).get(wanted)
    return wanted
