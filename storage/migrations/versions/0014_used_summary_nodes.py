"""When a node of a summary was last used, so that those can be forgotten that no run wants any more."""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("summary_nodes", schema=None) as batch_op:
        batch_op.add_column(sa.Column("used_at", sa.DateTime(timezone=True), nullable=True))
    # When each was last wanted is not known, so all count as wanted now.
    nodes = sa.table("summary_nodes", sa.column("used_at", sa.DateTime(timezone=True)))
    op.execute(nodes.update().values(used_at=datetime.now(UTC)))
    with op.batch_alter_table("summary_nodes", schema=None) as batch_op:
        batch_op.alter_column("used_at", existing_type=sa.DateTime(timezone=True), nullable=False)
        batch_op.create_index(op.f("ix_summary_nodes_used_at"), ["used_at"])


def downgrade() -> None:
    with op.batch_alter_table("summary_nodes", schema=None) as batch_op:
        batch_op.drop_index(op.f("ix_summary_nodes_used_at"))
        batch_op.drop_column("used_at")
