from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from core.clock import utc_now
from storage.models.base import Base


class Tenant(Base):
    __tablename__ = "tenants"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)


class ApiKey(Base):
    """A key's secret is never stored, only its SHA-256; `prefix` finds the row."""

    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), index=True)
    name: Mapped[str]
    prefix: Mapped[str] = mapped_column(unique=True)
    secret_hash: Mapped[str]
    scopes: Mapped[list[str]]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class IdempotencyKey(Base):
    """The answer that a write already gave, so that a repeated request gives it again."""

    __tablename__ = "idempotency_keys"

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    request_hash: Mapped[str]
    resource_id: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
