"""API keys: shown once, stored as a hash, found by their prefix.

A key reads `ll_<prefix>_<secret>`. The secret has 260 random bits, so a plain SHA-256 of it is
safe to store and fast to check on every request.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.errors import InvalidInput, KeyExpired, KeyRevoked, NotAuthenticated, NotFound
from core.ids import KeyId, TenantId, content_hash, new_id
from storage.models import ApiKey
from storage.paging import Page, PageRequest, paginate
from tenancy.principal import Principal, Scope, parse_scopes

MAX_NAME_LENGTH = 200

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PREFIX_LENGTH = 12
_SECRET_LENGTH = 52
_KEY = re.compile(f"ll_([{_ALPHABET}]{{{_PREFIX_LENGTH}}})_([{_ALPHABET}]{{{_SECRET_LENGTH}}})")
_NOBODY = content_hash("")  # compared with when no key has the prefix, so that both take as long


@dataclass(frozen=True, slots=True)
class Key:
    """What may be shown of a key; never its secret."""

    id: KeyId
    tenant_id: TenantId
    name: str
    prefix: str
    scopes: frozenset[Scope]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new key. `token` is what its holder presents, and exists nowhere else."""

    key: Key
    token: str = field(repr=False)


def issue_key(
    session: Session,
    tenant_id: TenantId,
    *,
    name: str,
    scopes: Iterable[str],
    now: datetime,
    expires_at: datetime | None = None,
) -> IssuedKey:
    """A new key of the tenant; show its token at once, it cannot be had again.

    Raises:
        InvalidInput: no or unknown scopes, no name, one too long, or an expiry that has passed.
    """
    _check_name(name)
    _check_expiry(expires_at, now)
    prefix, secret = _random(_PREFIX_LENGTH), _random(_SECRET_LENGTH)
    row = ApiKey(
        id=new_id("key"),
        tenant_id=tenant_id,
        name=name,
        prefix=prefix,
        secret_hash=content_hash(secret),
        scopes=sorted(scope.value for scope in parse_scopes(scopes)),
        created_at=now,
        expires_at=expires_at,
        revoked_at=None,
    )
    session.add(row)
    session.flush()
    return IssuedKey(_shown(row), f"ll_{prefix}_{secret}")


def authenticate(session: Session, presented: str, *, now: datetime) -> Principal:
    """Who presents this key.

    An unknown key takes as long to refuse as a known one with a wrong secret, and both are refused
    in the same words; that a key has expired or was revoked is told only to who has its secret.

    Raises:
        KeyRevoked, KeyExpired: it was valid once.
        NotAuthenticated: it never was.
    """
    match = _KEY.fullmatch(presented)
    prefix, secret = match.groups() if match else ("", "")
    row = session.scalar(select(ApiKey).where(ApiKey.prefix == prefix))
    stored = row.secret_hash if row is not None else _NOBODY
    right = hmac.compare_digest(content_hash(secret), stored)
    if not right or row is None or match is None:
        raise NotAuthenticated(
            "The API key is not valid.",
            remedy="Send 'Authorization: Bearer ll_…' with a key that `longleaf keys` issued.",
        )
    _check_in_force(row, now)
    return Principal(TenantId(row.tenant_id), KeyId(row.id), _scopes(row))


def list_keys(session: Session, tenant_id: TenantId, page: PageRequest) -> Page[Key]:
    """The tenant's keys, oldest first, expired and revoked ones too."""
    rows = paginate(session, select(ApiKey).where(ApiKey.tenant_id == tenant_id), ApiKey, page)
    return Page([_shown(row) for row in rows.items], rows.next_cursor)


def get_key(session: Session, tenant_id: TenantId, key_id: KeyId) -> Key:
    """Raises `NotFound` for an unknown or foreign id."""
    return _shown(_get(session, tenant_id, key_id))


def revoke_key(session: Session, tenant_id: TenantId, key_id: KeyId, *, now: datetime) -> Key:
    """From now on the key is refused. Revoking again changes nothing.

    Raises:
        NotFound: the tenant has no such key.
    """
    row = _get(session, tenant_id, key_id)
    if row.revoked_at is None:
        row.revoked_at = now
        session.flush()
    return _shown(row)


def _get(session: Session, tenant_id: TenantId, key_id: KeyId) -> ApiKey:
    row = session.scalar(select(ApiKey).where(ApiKey.tenant_id == tenant_id, ApiKey.id == key_id))
    if row is None:
        raise NotFound(f"There is no key {key_id}.", remedy="List yours with GET /v1/keys.", key_id=key_id)
    return row


def _check_name(name: str) -> None:
    if not name.strip() or len(name) > MAX_NAME_LENGTH or not name.isprintable():
        raise InvalidInput(
            f"A key's name must have 1 to {MAX_NAME_LENGTH} printable characters.",
            remedy="Name it after the application that will use it.",
        )


def _check_expiry(expires_at: datetime | None, now: datetime) -> None:
    if expires_at is None:
        return
    if expires_at.tzinfo is None:
        raise InvalidInput(f"The expiry {expires_at} has no time zone.", remedy="Add one, such as Z.")
    if expires_at <= now:
        raise InvalidInput(
            f"The expiry {expires_at.isoformat()} has passed.", remedy="Give a moment to come, or none."
        )


def _check_in_force(row: ApiKey, now: datetime) -> None:
    if row.revoked_at is not None:
        raise KeyRevoked(
            f"Key {row.id} was revoked at {row.revoked_at.isoformat()}.",
            remedy="Ask its tenant's administrator for a new one.",
            key_id=row.id,
        )
    if row.expires_at is not None and row.expires_at <= now:
        raise KeyExpired(
            f"Key {row.id} expired at {row.expires_at.isoformat()}.",
            remedy="Ask its tenant's administrator for a new one.",
            key_id=row.id,
        )


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def _scopes(row: ApiKey) -> frozenset[Scope]:
    # A scope that a newer version granted is unknown here and grants nothing.
    return frozenset(scope for scope in Scope if scope.value in row.scopes)


def _shown(row: ApiKey) -> Key:
    return Key(
        id=KeyId(row.id),
        tenant_id=TenantId(row.tenant_id),
        name=row.name,
        prefix=row.prefix,
        scopes=_scopes(row),
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
    )
