"""Cost reports that are kept; rollups by the day."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "stored_reports",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.Column("start_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("end_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("content", sa.JSON(), nullable=True),
        sa.Column("csv", sa.String(), nullable=True),
        sa.Column("html", sa.String(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_stored_reports_job_id_jobs")),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_stored_reports_tenant_id_tenants")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_stored_reports")),
        sa.UniqueConstraint("job_id", name=op.f("uq_stored_reports_job_id")),
    )
    op.create_index("ix_stored_reports_listing", "stored_reports", ["tenant_id", "created_at", "id"])
    op.execute("DELETE FROM ledger_rollups")  # there are more grains now; the relay sums anew


def downgrade() -> None:
    op.drop_table("stored_reports")
