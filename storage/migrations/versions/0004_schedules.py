"""Schedules and their runs; jobs name the schedule that began them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "schedules",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("key_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.Column("cron", sa.String(), nullable=True),
        sa.Column("time_zone", sa.String(), nullable=False),
        sa.Column("every_seconds", sa.Integer(), nullable=True),
        sa.Column("catch_up", sa.String(), nullable=False),
        sa.Column("overlap", sa.String(), nullable=False),
        sa.Column("start_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("end_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("next_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("paused_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("pause_code", sa.String(), nullable=True),
        sa.Column("pause_detail", sa.String(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["key_id"], ["api_keys.id"], name=op.f("fk_schedules_key_id_api_keys")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_schedules_tenant_id_tenants")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedules")),
    )
    with op.batch_alter_table("schedules", schema=None) as batch_op:
        batch_op.create_index("ix_schedules_due", ["next_at"], unique=False)
        batch_op.create_index("ix_schedules_listing", ["tenant_id", "created_at", "id"], unique=False)

    op.create_table(
        "schedule_runs",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("schedule_id", sa.String(), nullable=False),
        sa.Column("slot_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("first_slot_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("code", sa.String(), nullable=True),
        sa.Column("detail", sa.String(), nullable=True),
        sa.Column("job_id", sa.String(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_schedule_runs_job_id_jobs")),
        sa.ForeignKeyConstraint(
            ["schedule_id"], ["schedules.id"], name=op.f("fk_schedule_runs_schedule_id_schedules")
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_schedule_runs_tenant_id_tenants")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedule_runs")),
        sa.UniqueConstraint("schedule_id", "slot_at", name=op.f("uq_schedule_runs_schedule_id_slot_at")),
    )
    with op.batch_alter_table("schedule_runs", schema=None) as batch_op:
        batch_op.create_index("ix_schedule_runs_listing", ["schedule_id", "created_at", "id"], unique=False)
        batch_op.create_index(
            "ix_schedule_runs_waiting",
            ["schedule_id"],
            unique=False,
            sqlite_where=sa.text("outcome = 'waiting'"),
            postgresql_where=sa.text("outcome = 'waiting'"),
        )

    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("schedule_id", sa.String(), nullable=True))
        batch_op.add_column(sa.Column("schedule_run_id", sa.String(), nullable=True))
        batch_op.create_index("ix_jobs_schedule", ["schedule_id", "status"], unique=False)
        batch_op.create_index("ix_jobs_schedule_run", ["schedule_run_id"], unique=False)

    with op.batch_alter_table("ledger_entries", schema=None) as batch_op:
        batch_op.create_index("ix_ledger_entries_job", ["job_id"], unique=False)


def downgrade() -> None:
    with op.batch_alter_table("ledger_entries", schema=None) as batch_op:
        batch_op.drop_index("ix_ledger_entries_job")

    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.drop_index("ix_jobs_schedule_run")
        batch_op.drop_index("ix_jobs_schedule")
        batch_op.drop_column("schedule_run_id")
        batch_op.drop_column("schedule_id")

    with op.batch_alter_table("schedule_runs", schema=None) as batch_op:
        batch_op.drop_index(
            "ix_schedule_runs_waiting",
            sqlite_where=sa.text("outcome = 'waiting'"),
            postgresql_where=sa.text("outcome = 'waiting'"),
        )
        batch_op.drop_index("ix_schedule_runs_listing")

    op.drop_table("schedule_runs")
    with op.batch_alter_table("schedules", schema=None) as batch_op:
        batch_op.drop_index("ix_schedules_listing")
        batch_op.drop_index("ix_schedules_due")

    op.drop_table("schedules")
