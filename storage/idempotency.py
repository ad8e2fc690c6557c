"""Writes that are repeated give what they gave the first time."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from core.errors import Conflict, IdempotencyMismatch
from core.ids import TenantId
from storage.models import IdempotencyKey


class IdempotencyKeys:
    """A tenant's keys. `remember` in the transaction that creates the resource."""

    def __init__(self, session: Session, tenant_id: TenantId) -> None:
        self._session = session
        self._tenant_id = tenant_id

    def find(self, key: str, request_hash: str) -> str | None:
        """The id of what the first request with this key made.

        Raises:
            IdempotencyMismatch: the first request was another one.
        """
        row = self._session.scalar(
            select(IdempotencyKey).where(
                IdempotencyKey.tenant_id == self._tenant_id, IdempotencyKey.key == key
            )
        )
        if row is None:
            return None
        if row.request_hash != request_hash:
            raise IdempotencyMismatch(
                f"Idempotency-Key {key!r} was used for a different request.",
                remedy="Use a new key for a new request.",
                key=key,
            )
        return row.resource_id

    def remember(self, key: str, request_hash: str, resource_id: str) -> None:
        """Bind the key to what this transaction makes.

        Raises:
            Conflict: another request with the key is committing right now; repeat it.
        """
        self._session.add(
            IdempotencyKey(
                tenant_id=self._tenant_id,
                key=key,
                request_hash=request_hash,
                resource_id=resource_id,
            )
        )
        try:
            self._session.flush()
        except IntegrityError as error:
            raise Conflict(
                f"A request with Idempotency-Key {key!r} is being worked on.",
                remedy="Repeat it in a moment to get its result.",
                key=key,
            ) from error
