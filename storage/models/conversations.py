from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from core.clock import utc_now
from storage.models.base import Base


class Conversation(Base):
    """Questions about one collection, each understood in the light of those before it.

    Its turns are its answers, which only ever grow in number. `num_turns` is the number of the
    newest. `summary` stands for turns 1 to `summarized_turns`; `summary_dropped` records what of
    them it does not keep.
    """

    __tablename__ = "conversations"
    __table_args__ = (Index("ix_conversations_listing", "tenant_id", "created_at", "id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    collection_id: Mapped[str] = mapped_column(ForeignKey("collections.id"))
    title: Mapped[str] = mapped_column(default="")
    num_turns: Mapped[int] = mapped_column(default=0)
    summary: Mapped[str] = mapped_column(default="")
    summarized_turns: Mapped[int] = mapped_column(default=0)
    summary_dropped: Mapped[list[dict[str, Any]]] = mapped_column(default=list)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    deleted_at: Mapped[datetime | None]
