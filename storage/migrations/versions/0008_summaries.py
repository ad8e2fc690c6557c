"""Summaries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "summary_nodes",
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("statements", sa.JSON(), nullable=False),
        sa.Column("vectors", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_summary_nodes_tenant_id_tenants")
        ),
        sa.PrimaryKeyConstraint("tenant_id", "key", name=op.f("pk_summary_nodes")),
    )
    op.create_table(
        "summaries",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("collection_id", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("definition", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.Column("not_ready", sa.JSON(), nullable=False),
        sa.Column("num_documents", sa.Integer(), nullable=False),
        sa.Column("num_done", sa.Integer(), nullable=False),
        sa.Column("num_nodes", sa.Integer(), nullable=False),
        sa.Column("num_computed", sa.Integer(), nullable=False),
        sa.Column("num_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.String(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=True),
        sa.Column("result", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name=op.f("fk_summaries_collection_id_collections")
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_summaries_job_id_jobs")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_summaries_tenant_id_tenants")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_summaries")),
        sa.UniqueConstraint("job_id", name=op.f("uq_summaries_job_id")),
    )
    with op.batch_alter_table("summaries", schema=None) as batch_op:
        batch_op.create_index("ix_summaries_definition", ["tenant_id", "definition", "version"], unique=True)
        batch_op.create_index("ix_summaries_listing", ["tenant_id", "created_at", "id"], unique=False)

    op.create_table(
        "summary_documents",
        sa.Column("summary_id", sa.String(), nullable=False),
        sa.Column("document_id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("document_name", sa.String(), nullable=False),
        sa.Column("content_hash", sa.String(), nullable=False),
        sa.Column("node_key", sa.String(), nullable=True),
        sa.Column("statements", sa.JSON(), nullable=False),
        sa.Column("num_pages", sa.Integer(), nullable=False),
        sa.Column("num_pages_read", sa.Integer(), nullable=False),
        sa.Column("num_pages_empty", sa.Integer(), nullable=False),
        sa.Column("skipped", sa.JSON(), nullable=False),
        sa.Column("sentences", sa.LargeBinary(), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["summary_id"],
            ["summaries.id"],
            name=op.f("fk_summary_documents_summary_id_summaries"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_summary_documents_tenant_id_tenants")
        ),
        sa.PrimaryKeyConstraint("summary_id", "document_id", name=op.f("pk_summary_documents")),
    )


def downgrade() -> None:
    op.drop_table("summary_documents")
    with op.batch_alter_table("summaries", schema=None) as batch_op:
        batch_op.drop_index("ix_summaries_listing")
        batch_op.drop_index("ix_summaries_definition")

    op.drop_table("summaries")
    op.drop_table("summary_nodes")
