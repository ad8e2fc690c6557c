"""Cost reports that are kept; passages that need not be embedded again; rollups by the day."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
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
    has_reused = sa.text("reused_tokens > 0")
    with op.batch_alter_table("uploaded_files", schema=None) as batch_op:
        batch_op.add_column(sa.Column("reused_tokens", sa.BigInteger(), server_default="0", nullable=False))
        batch_op.add_column(sa.Column("reused_model", sa.String(), server_default="", nullable=False))
        batch_op.add_column(sa.Column("reused_revision", sa.String(), server_default="", nullable=False))
        batch_op.create_index(
            "ix_uploaded_files_reused",
            ["tenant_id", "created_at"],
            sqlite_where=has_reused,
            postgresql_where=has_reused,
        )
    op.execute("DELETE FROM ledger_rollups")  # there are more grains now; the relay sums anew


def downgrade() -> None:
    with op.batch_alter_table("uploaded_files", schema=None) as batch_op:
        batch_op.drop_index("ix_uploaded_files_reused")
        batch_op.drop_column("reused_revision")
        batch_op.drop_column("reused_model")
        batch_op.drop_column("reused_tokens")
    op.drop_table("stored_reports")
