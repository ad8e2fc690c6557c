"""Traces of answers, several samples of one, tables extracted of collections, static documents."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "extractions",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("collection_id", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.Column("num_documents", sa.Integer(), nullable=False),
        sa.Column("num_done", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name=op.f("fk_extractions_collection_id_collections")
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_extractions_job_id_jobs")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_extractions_tenant_id_tenants")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_extractions")),
        sa.UniqueConstraint("job_id", name=op.f("uq_extractions_job_id")),
    )
    with op.batch_alter_table("extractions", schema=None) as batch_op:
        batch_op.create_index("ix_extractions_listing", ["tenant_id", "created_at", "id"], unique=False)

    op.create_table(
        "answer_traces",
        sa.Column("answer_id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("trace", sa.JSON(), nullable=False),
        sa.Column("holds_text", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("redacted_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["answer_id"], ["answers.id"], name=op.f("fk_answer_traces_answer_id_answers")
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_answer_traces_tenant_id_tenants")
        ),
        sa.PrimaryKeyConstraint("answer_id", name=op.f("pk_answer_traces")),
    )
    with op.batch_alter_table("answer_traces", schema=None) as batch_op:
        batch_op.create_index("ix_answer_traces_text", ["tenant_id", "holds_text"], unique=False)
        batch_op.create_index("ix_answer_traces_created_at", ["created_at"], unique=False)

    op.create_table(
        "extraction_rows",
        sa.Column("extraction_id", sa.String(), nullable=False),
        sa.Column("document_id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("document_name", sa.String(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=True),
        sa.Column("cells", sa.JSON(), nullable=False),
        sa.Column("trail", sa.JSON(), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["extraction_id"],
            ["extractions.id"],
            name=op.f("fk_extraction_rows_extraction_id_extractions"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_extraction_rows_tenant_id_tenants")
        ),
        sa.PrimaryKeyConstraint("extraction_id", "document_id", name=op.f("pk_extraction_rows")),
    )
    # Rows are there already: a new column is filled before it may not be empty.
    with op.batch_alter_table("answers") as batch:
        batch.add_column(sa.Column("samples", sa.JSON(), nullable=True))
    op.execute("UPDATE answers SET samples = '{}'")
    with op.batch_alter_table("answers") as batch:
        batch.alter_column("samples", existing_type=sa.JSON(), nullable=False)
        batch.create_index("ix_answers_newest", ["created_at", "id"], unique=False)
    with op.batch_alter_table("documents") as batch:
        batch.add_column(sa.Column("is_static", sa.Boolean(), nullable=True))
    op.execute("UPDATE documents SET is_static = false")
    with op.batch_alter_table("documents") as batch:
        batch.alter_column("is_static", existing_type=sa.Boolean(), nullable=False)


def downgrade() -> None:
    with op.batch_alter_table("documents", schema=None) as batch_op:
        batch_op.drop_column("is_static")

    with op.batch_alter_table("answers", schema=None) as batch_op:
        batch_op.drop_index("ix_answers_newest")
        batch_op.drop_column("samples")

    op.drop_table("extraction_rows")
    with op.batch_alter_table("answer_traces", schema=None) as batch_op:
        batch_op.drop_index("ix_answer_traces_created_at")
        batch_op.drop_index("ix_answer_traces_text")

    op.drop_table("answer_traces")
    with op.batch_alter_table("extractions", schema=None) as batch_op:
        batch_op.drop_index("ix_extractions_listing")

    op.drop_table("extractions")
