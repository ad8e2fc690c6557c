"""Writes that may be repeated: the same `Idempotency-Key` makes its resource once."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from sqlalchemy.orm import Session

from core.ids import TenantId, content_hash
from storage.idempotency import IdempotencyKeys

Resource = TypeVar("Resource")


@dataclass(frozen=True, slots=True)
class Made(Generic[Resource]):
    resource: Resource
    is_repeat: bool
    """An earlier request made it; this one changed nothing."""


def request_hash(*parts: object) -> str:
    """One hash for requests that ask for the same."""
    return content_hash(json.dumps(parts, sort_keys=True, ensure_ascii=True))


def make_once(
    session: Session,
    tenant_id: TenantId,
    key: str | None,
    fingerprint: str,
    *,
    make: Callable[[], tuple[str, Resource]],
    load: Callable[[str], Resource],
) -> Made[Resource]:
    """What `make` makes (with its id), or what it made under the same key before.

    Raises:
        IdempotencyMismatch: the key was used for another request.
        Conflict: a request with the key is being worked on.
    """
    keys = IdempotencyKeys(session, tenant_id)
    if key is not None:
        earlier = keys.find(key, fingerprint)
        if earlier is not None:
            return Made(load(earlier), is_repeat=True)
    identifier, resource = make()
    if key is not None:
        keys.remember(key, fingerprint, identifier)
    return Made(resource, is_repeat=False)
