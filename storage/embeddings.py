"""Vectors that a tenant has paid for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select
from sqlalchemy.orm import Session

from core.clock import utc_now
from core.ids import TenantId
from storage.insertion import insert_if_absent
from storage.models import Embedding

_IN_LIMIT = 500  # bound variables per statement; SQLite's default limit is higher, old builds' 999


class EmbeddingRepository:
    """A tenant's vectors by (model revision, text hash)."""

    def __init__(self, session: Session, tenant_id: TenantId) -> None:
        self._session = session
        self._tenant_id = tenant_id

    def find(self, model_revision: str, text_hashes: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """The vectors that exist, by text hash."""
        found: dict[str, NDArray[np.float32]] = {}
        for i in range(0, len(text_hashes), _IN_LIMIT):
            rows = self._session.execute(
                select(Embedding.text_hash, Embedding.vector).where(
                    Embedding.tenant_id == self._tenant_id,
                    Embedding.model_revision == model_revision,
                    Embedding.text_hash.in_(text_hashes[i : i + _IN_LIMIT]),
                )
            )
            for text_hash, vector in rows:
                found[text_hash] = np.frombuffer(vector, dtype=np.float16).astype(np.float32)
        return found

    def add(self, model_revision: str, vectors: Mapping[str, NDArray[np.float32]]) -> frozenset[str]:
        """Store vectors; the hashes that were new, which are the ones to bill.

        One that another worker stored meanwhile is left alone and not among them.
        """
        added = set()
        # In one order for all: two workers with the same texts would otherwise wait for each other.
        for text_hash, vector in sorted(vectors.items(), key=lambda item: item[0]):
            values = {
                "tenant_id": self._tenant_id,
                "model_revision": model_revision,
                "text_hash": text_hash,
                "vector": vector.astype(np.float16).tobytes(),
                "created_at": utc_now(),
            }
            if insert_if_absent(self._session, Embedding, values):
                added.add(text_hash)
        return frozenset(added)
