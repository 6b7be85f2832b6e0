"""Summaries that the provider wrote of messages some of which were sent without their thinking."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Rows that are there kept all thinking or none."""
    op.add_column("summaries", sa.Column("bare_until", sa.Integer, nullable=False, server_default="0"))
