"""Deadlines and versions of jobs, turns of tenants in the outbox, paused queues."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    unsent = sa.text("sent_at IS NULL")
    unfinished = sa.text("finished_at IS NULL AND deadline_at IS NOT NULL")
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("deadline_at", sa.DateTime(timezone=True), nullable=True))
        batch_op.add_column(sa.Column("priority", sa.Integer(), server_default="0", nullable=False))
        batch_op.add_column(sa.Column("version", sa.Integer(), server_default="1", nullable=False))
        batch_op.create_index(
            "ix_jobs_deadline", ["deadline_at"], sqlite_where=unfinished, postgresql_where=unfinished
        )
    with op.batch_alter_table("outbox", schema=None) as batch_op:
        batch_op.add_column(sa.Column("tenant_id", sa.String(), nullable=True))
        batch_op.add_column(sa.Column("priority", sa.Integer(), nullable=True))
    op.execute("UPDATE jobs SET priority = 10 WHERE queue = 'batch'")
    op.execute(
        "UPDATE outbox SET priority = (SELECT jobs.priority FROM jobs WHERE jobs.id = outbox.job_id), "
        "tenant_id = (SELECT jobs.tenant_id FROM jobs WHERE jobs.id = outbox.job_id)"
    )
    with op.batch_alter_table("outbox", schema=None) as batch_op:
        batch_op.alter_column("tenant_id", existing_type=sa.String(), nullable=False)
        batch_op.alter_column("priority", existing_type=sa.Integer(), nullable=False)
        batch_op.create_foreign_key(op.f("fk_outbox_tenant_id_tenants"), "tenants", ["tenant_id"], ["id"])
        batch_op.create_index(
            "ix_outbox_waiting",
            ["queue", "tenant_id", "priority", "id"],
            sqlite_where=unsent,
            postgresql_where=unsent,
        )
        batch_op.create_index("ix_outbox_job_id", ["job_id"])
    op.create_table(
        "queue_pauses",
        sa.Column("queue", sa.String(), nullable=False),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("paused_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("queue", "scope", name=op.f("pk_queue_pauses")),
    )


def downgrade() -> None:
    op.drop_table("queue_pauses")
    with op.batch_alter_table("outbox", schema=None) as batch_op:
        batch_op.drop_index("ix_outbox_job_id")
        batch_op.drop_index("ix_outbox_waiting")
        batch_op.drop_constraint(op.f("fk_outbox_tenant_id_tenants"), type_="foreignkey")
        batch_op.drop_column("priority")
        batch_op.drop_column("tenant_id")
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.drop_index("ix_jobs_deadline")
        batch_op.drop_column("version")
        batch_op.drop_column("priority")
        batch_op.drop_column("deadline_at")
