from __future__ import annotations

from datetime import datetime

from pydantic import Field

from api.schemas.base import Body, Name, View
from tenancy import keys
from tenancy.principal import Scope


class NewKey(Body):
    name: Name = Field(description="After the application that will use it.")
    scopes: list[Scope] = Field(min_length=1, description="What it may do; `admin` implies the others.")
    expires_in_days: int | None = Field(None, ge=1, le=3650, description="Left out: it never expires.")


class Key(View):
    """An API key; its secret is never shown again."""

    id: str = Field(description="`key_…`")
    name: str = Field(description="What it is for.")
    prefix: str = Field(description="The part after `ll_` by which it is recognised.")
    scopes: list[Scope] = Field(description="What it may do.")
    created_at: datetime = Field(description="When it was issued.")
    expires_at: datetime | None = Field(description="From then on it is refused; null: never.")
    revoked_at: datetime | None = Field(description="When it was revoked; null: it was not.")

    @classmethod
    def of(cls, key: keys.Key) -> Key:
        return cls.model_validate(_shown(key))


class IssuedKey(Key):
    """A new key, with its secret, this once."""

    key: str | None = Field(
        description="Send it as `Authorization: Bearer …`. Null where an `Idempotency-Key` was repeated: "
        "it was shown to the first request only."
    )

    @classmethod
    def issued(cls, key: keys.Key, token: str | None) -> IssuedKey:
        return cls.model_validate(_shown(key) | {"key": token})


def _shown(key: keys.Key) -> dict[str, object]:
    return {
        "id": key.id,
        "name": key.name,
        "prefix": key.prefix,
        "scopes": sorted(key.scopes),
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
    }
