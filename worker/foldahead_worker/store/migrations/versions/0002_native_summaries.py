"""Summaries that the provider wrote: what they were made under."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Rows that are there were made by us: none was made under an envelope."""
    op.add_column("summaries", sa.Column("envelope", sa.String, nullable=False, server_default=""))
    op.add_column("summaries", sa.Column("keeps_thinking", sa.Boolean, nullable=False, server_default=sa.false()))
