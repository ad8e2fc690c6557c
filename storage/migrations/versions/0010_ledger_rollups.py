"""Sums of the ledger by the hour."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "ledger_rollups",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("grain", sa.String(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("collection_id", sa.String(), nullable=True),
        sa.Column("document_id", sa.String(), nullable=True),
        sa.Column("key_id", sa.String(), nullable=True),
        sa.Column("job_id", sa.String(), nullable=True),
        sa.Column("job_kind", sa.String(), nullable=True),
        sa.Column("schedule_id", sa.String(), nullable=True),
        sa.Column("source", sa.String(), nullable=True),
        sa.Column("stage", sa.String(), nullable=True),
        sa.Column("price_stage", sa.String(), nullable=True),
        sa.Column("model", sa.String(), nullable=True),
        sa.Column("model_revision", sa.String(), nullable=True),
        sa.Column("price_per_million", sa.BigInteger(), nullable=True),
        sa.Column("billed", sa.Boolean(), nullable=False),
        sa.Column("is_correction", sa.Boolean(), nullable=False),
        sa.Column("currency", sa.String(), nullable=False),
        sa.Column("num_lines", sa.BigInteger(), nullable=False),
        sa.Column("num_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost", sa.BigInteger(), nullable=False),
        sa.Column("engine_cost", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_ledger_rollups_tenant_id_tenants")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger_rollups")),
    )
    op.create_index("ix_ledger_rollups_report", "ledger_rollups", ["tenant_id", "grain", "start"])


def downgrade() -> None:
    op.drop_table("ledger_rollups")
