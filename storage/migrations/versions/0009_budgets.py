"""Budgets: what is used of them in each period, and what is held for jobs that have not ended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "budgets",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("key_id", sa.String(), nullable=True),
        sa.Column("collection_id", sa.String(), nullable=True),
        sa.Column("period", sa.String(), nullable=False),
        sa.Column("unit", sa.String(), nullable=False),
        sa.Column("currency", sa.String(), nullable=False),
        sa.Column("limit", sa.BigInteger(), nullable=False),
        sa.Column("warn_at", sa.JSON(), nullable=False),
        sa.Column("time_zone", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name=op.f("fk_budgets_collection_id_collections")
        ),
        sa.ForeignKeyConstraint(["key_id"], ["api_keys.id"], name=op.f("fk_budgets_key_id_api_keys")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_budgets_tenant_id_tenants")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_budgets")),
    )
    with op.batch_alter_table("budgets", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_budgets_tenant_id"), ["tenant_id"], unique=False)

    op.create_table(
        "budget_holds",
        sa.Column("budget_id", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["budget_id"], ["budgets.id"], name=op.f("fk_budget_holds_budget_id_budgets")
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_budget_holds_job_id_jobs")),
        sa.PrimaryKeyConstraint("budget_id", "job_id", name=op.f("pk_budget_holds")),
    )
    with op.batch_alter_table("budget_holds", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_budget_holds_job_id"), ["job_id"], unique=False)

    op.create_table(
        "budget_periods",
        sa.Column("budget_id", sa.String(), nullable=False),
        sa.Column("starts_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.Column("told_percent", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["budget_id"], ["budgets.id"], name=op.f("fk_budget_periods_budget_id_budgets")
        ),
        sa.PrimaryKeyConstraint("budget_id", "starts_at", name=op.f("pk_budget_periods")),
    )


def downgrade() -> None:
    op.drop_table("budget_periods")
    with op.batch_alter_table("budget_holds", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_budget_holds_job_id"))

    op.drop_table("budget_holds")
    with op.batch_alter_table("budgets", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_budgets_tenant_id"))

    op.drop_table("budgets")
