from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from core.clock import utc_now
from storage.models.base import Base


class Schedule(Base):
    """Work to begin whenever it is due: by `cron` on the clocks of `time_zone`, or `every_seconds`.

    `next_at` is the slot to come; NULL while it is paused and once there is none. A schedule that
    paused itself says why in `pause_code` and `pause_detail`.
    """

    __tablename__ = "schedules"
    __table_args__ = (
        Index("ix_schedules_listing", "tenant_id", "created_at", "id"),
        Index("ix_schedules_due", "next_at"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    key_id: Mapped[str] = mapped_column(ForeignKey("api_keys.id"))
    name: Mapped[str]
    action: Mapped[str]
    parameters: Mapped[dict[str, Any]]
    cron: Mapped[str | None]
    time_zone: Mapped[str]
    every_seconds: Mapped[int | None]
    catch_up: Mapped[str]
    overlap: Mapped[str]
    start_at: Mapped[datetime | None]
    end_at: Mapped[datetime | None]
    next_at: Mapped[datetime | None]
    paused_at: Mapped[datetime | None]
    pause_code: Mapped[str | None]
    pause_detail: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    deleted_at: Mapped[datetime | None]


class ScheduleRun(Base):
    """What became of a slot; written with the job it began. `slot_at` NULL: somebody asked for it.

    `outcome`: `started waiting skipped failed`, with the reason in `code` and `detail`. A row of missed
    slots stands for all from `first_slot_at` to `slot_at`.
    """

    __tablename__ = "schedule_runs"
    __table_args__ = (
        UniqueConstraint("schedule_id", "slot_at"),
        Index("ix_schedule_runs_listing", "schedule_id", "created_at", "id"),
        Index(
            "ix_schedule_runs_waiting",
            "schedule_id",
            sqlite_where=text("outcome = 'waiting'"),
            postgresql_where=text("outcome = 'waiting'"),
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    schedule_id: Mapped[str] = mapped_column(ForeignKey("schedules.id"))
    slot_at: Mapped[datetime | None]
    first_slot_at: Mapped[datetime | None]
    outcome: Mapped[str]
    code: Mapped[str | None]
    detail: Mapped[str | None]
    job_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id"))
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
