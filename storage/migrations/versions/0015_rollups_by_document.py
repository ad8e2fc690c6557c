"""Rollups by document with stage and model."""

from __future__ import annotations

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("DELETE FROM ledger_rollups")  # there is a grain more now; the relay sums anew


def downgrade() -> None:
    op.execute("DELETE FROM ledger_rollups")
