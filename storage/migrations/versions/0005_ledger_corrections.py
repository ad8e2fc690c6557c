"""Corrections and true cost on the ledger, prices of revisions and announced ones, samples of engines' counters."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_OLD_KEY = "uq_prices_tenant_id_model_stage_effective_from"
_NEW_KEY = "uq_prices_tenant_id_model_model_revision_stage_effective_from"


def upgrade() -> None:
    # Columns that may be empty are added in place: no table is rebuilt, so the ledger keeps its triggers.
    op.add_column("ledger_entries", sa.Column("reason", sa.String(), nullable=True))
    op.add_column("ledger_entries", sa.Column("corrects_id", sa.String(), nullable=True))
    op.add_column("ledger_entries", sa.Column("engine_cost", sa.BigInteger(), nullable=True))
    op.create_index(
        "ix_ledger_entries_corrects_id",
        "ledger_entries",
        ["corrects_id"],
        sqlite_where=sa.text("corrects_id IS NOT NULL"),
        postgresql_where=sa.text("corrects_id IS NOT NULL"),
    )
    with op.batch_alter_table("prices") as batch:
        batch.add_column(sa.Column("model_revision", sa.String(), nullable=False, server_default=""))
        batch.add_column(sa.Column("announced_by", sa.String(), nullable=True))
        # PostgreSQL names the NOT NULL after the column; only one that is set anew has the new name.
        batch.alter_column("price_per_million", new_column_name="price", nullable=True)
        batch.drop_constraint(_OLD_KEY, type_="unique")
        batch.create_unique_constraint(
            _NEW_KEY, ["tenant_id", "model", "model_revision", "stage", "effective_from"]
        )
    with op.batch_alter_table("prices") as batch:
        batch.alter_column("model_revision", existing_type=sa.String(), server_default=None)
        batch.alter_column("price", existing_type=sa.BigInteger(), nullable=False)
    op.create_table(
        "engine_samples",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("engine", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("sampled_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=False),
        sa.Column("generation_tokens", sa.BigInteger(), nullable=False),
        sa.Column("busy_seconds", sa.Double(), nullable=False),
        sa.Column("is_quiet", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_engine_samples"),
        sa.UniqueConstraint("engine", "sampled_at", name="uq_engine_samples_engine_sampled_at"),
    )


def downgrade() -> None:
    op.drop_table("engine_samples")
    # What only newer versions know is lost: prices of revisions, and rates per hour.
    op.execute("DELETE FROM prices WHERE model_revision != '' OR stage = 'engine_hour'")
    with op.batch_alter_table("prices") as batch:
        batch.drop_constraint(_NEW_KEY, type_="unique")
        batch.create_unique_constraint(_OLD_KEY, ["tenant_id", "model", "stage", "effective_from"])
        batch.alter_column("price", new_column_name="price_per_million", nullable=True)
        batch.drop_column("announced_by")
        batch.drop_column("model_revision")
    with op.batch_alter_table("prices") as batch:
        batch.alter_column("price_per_million", existing_type=sa.BigInteger(), nullable=False)
    op.drop_index("ix_ledger_entries_corrects_id", "ledger_entries")
    for column in ("engine_cost", "corrects_id", "reason"):
        op.drop_column("ledger_entries", column)
