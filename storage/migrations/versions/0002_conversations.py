"""Conversations, evaluations, document tags, answers in statements, ledger lines with their price's stage."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from storage.migrations.append_only import protect, unprotect

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "conversations",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("collection_id", sa.String(), nullable=False),
        sa.Column("title", sa.String(), nullable=False),
        sa.Column("num_turns", sa.Integer(), nullable=False),
        sa.Column("summary", sa.String(), nullable=False),
        sa.Column("summarized_turns", sa.Integer(), nullable=False),
        sa.Column("summary_dropped", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name=op.f("fk_conversations_collection_id_collections")
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_conversations_tenant_id_tenants")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_conversations")),
    )
    with op.batch_alter_table("conversations", schema=None) as batch_op:
        batch_op.create_index("ix_conversations_listing", ["tenant_id", "created_at", "id"], unique=False)

    op.create_table(
        "evaluations",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("collection_id", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.Column("num_questions", sa.Integer(), nullable=False),
        sa.Column("num_done", sa.Integer(), nullable=False),
        sa.Column("report", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name=op.f("fk_evaluations_collection_id_collections")
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_evaluations_job_id_jobs")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_evaluations_tenant_id_tenants")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_evaluations")),
        sa.UniqueConstraint("job_id", name=op.f("uq_evaluations_job_id")),
    )
    with op.batch_alter_table("evaluations", schema=None) as batch_op:
        batch_op.create_index("ix_evaluations_listing", ["tenant_id", "created_at", "id"], unique=False)

    op.create_table(
        "document_tags",
        sa.Column("document_id", sa.String(), nullable=False),
        sa.Column("tag", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["document_id"],
            ["documents.id"],
            name=op.f("fk_document_tags_document_id_documents"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_document_tags_tenant_id_tenants")
        ),
        sa.PrimaryKeyConstraint("document_id", "tag", name=op.f("pk_document_tags")),
    )
    with op.batch_alter_table("document_tags", schema=None) as batch_op:
        batch_op.create_index("ix_document_tags_tag", ["tenant_id", "tag"], unique=False)

    op.create_table(
        "evaluation_items",
        sa.Column("evaluation_id", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("question", sa.JSON(), nullable=False),
        sa.Column("result", sa.JSON(), nullable=False),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.Column("error", sa.JSON(), nullable=True),
        sa.Column("cost", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["evaluation_id"],
            ["evaluations.id"],
            name=op.f("fk_evaluation_items_evaluation_id_evaluations"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_evaluation_items_tenant_id_tenants")
        ),
        sa.PrimaryKeyConstraint("evaluation_id", "position", name=op.f("pk_evaluation_items")),
    )
    # Rows are there already: a new column is filled before it may not be empty.
    with op.batch_alter_table("answers") as batch:
        batch.add_column(sa.Column("conversation_id", sa.String(), nullable=True))
        batch.add_column(sa.Column("turn", sa.Integer(), nullable=True))
        batch.add_column(sa.Column("statements", sa.JSON(), nullable=True))
        batch.add_column(sa.Column("steps", sa.JSON(), nullable=True))
        batch.add_column(sa.Column("short_answer", sa.JSON(), nullable=True))
    op.execute("UPDATE answers SET statements = '[]', steps = '{}'")
    with op.batch_alter_table("answers") as batch:
        batch.alter_column("statements", existing_type=sa.JSON(), nullable=False)
        batch.alter_column("steps", existing_type=sa.JSON(), nullable=False)
        batch.create_unique_constraint("uq_answers_conversation_id_turn", ["conversation_id", "turn"])
        batch.create_foreign_key(
            "fk_answers_conversation_id_conversations", "conversations", ["conversation_id"], ["id"]
        )

    unprotect("ledger_entries")
    with op.batch_alter_table("ledger_entries") as batch:
        batch.add_column(sa.Column("price_stage", sa.String(), nullable=True))
    op.execute("UPDATE ledger_entries SET price_stage = stage")
    with op.batch_alter_table("ledger_entries") as batch:
        batch.alter_column("price_stage", existing_type=sa.String(), nullable=False)
        batch.drop_constraint("uq_ledger_entries_source_attempt_stage", type_="unique")
        batch.create_unique_constraint(
            "uq_ledger_entries_source_attempt_stage_price_stage_model",
            ["source", "attempt", "stage", "price_stage", "model"],
        )
    protect("ledger_entries")


def downgrade() -> None:
    # Lines of one stage at several prices cannot be told apart before: then this fails and changes nothing.
    unprotect("ledger_entries")
    with op.batch_alter_table("ledger_entries", schema=None) as batch_op:
        batch_op.drop_constraint(
            batch_op.f("uq_ledger_entries_source_attempt_stage_price_stage_model"), type_="unique"
        )
        batch_op.create_unique_constraint(
            batch_op.f("uq_ledger_entries_source_attempt_stage"), ["source", "attempt", "stage"]
        )
        batch_op.drop_column("price_stage")
    protect("ledger_entries")

    with op.batch_alter_table("answers", schema=None) as batch_op:
        batch_op.drop_constraint(batch_op.f("fk_answers_conversation_id_conversations"), type_="foreignkey")
        batch_op.drop_constraint(batch_op.f("uq_answers_conversation_id_turn"), type_="unique")
        batch_op.drop_column("short_answer")
        batch_op.drop_column("steps")
        batch_op.drop_column("statements")
        batch_op.drop_column("turn")
        batch_op.drop_column("conversation_id")

    op.drop_table("evaluation_items")
    with op.batch_alter_table("document_tags", schema=None) as batch_op:
        batch_op.drop_index("ix_document_tags_tag")

    op.drop_table("document_tags")
    with op.batch_alter_table("evaluations", schema=None) as batch_op:
        batch_op.drop_index("ix_evaluations_listing")

    op.drop_table("evaluations")
    with op.batch_alter_table("conversations", schema=None) as batch_op:
        batch_op.drop_index("ix_conversations_listing")

    op.drop_table("conversations")
