"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# SQLite counts only INTEGER primary keys up by itself.
_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """From an empty database."""
    _events()
    _jobs()
    _policies()
    _records()
    _sessions()
    _spend()
    _summaries()
    _waiters()


def _events() -> None:
    op.create_table(
        "events",
        sa.Column("id", _ID, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("workspace", sa.String(), nullable=False),
        sa.Column("session", sa.String(), nullable=False),
        sa.Column("identity", sa.String(), nullable=True),
        sa.Column("json", sa.Text(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("workspace", "session", "identity"),
        sqlite_autoincrement=True,
    )
    op.create_index("events_by_session", "events", ["workspace", "session", "id"], unique=False)


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", _ID, nullable=False),
        sa.Column("workspace", sa.String(), nullable=False),
        sa.Column("cache_key", sa.String(), nullable=False),
        sa.Column("request", sa.LargeBinary(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("parent", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("urgency", sa.String(), nullable=False),
        sa.Column("deadline_ms", sa.BigInteger(), nullable=False),
        sa.Column("not_before_ms", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("token", sa.Integer(), nullable=False),
        sa.Column("heartbeat", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("error_class", sa.String(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("sent_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("workspace", "cache_key"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "jobs_by_state",
        "jobs",
        ["state", "urgency", "workspace", "deadline_ms", "not_before_ms", "kind", "model"],
        unique=False,
    )


def _policies() -> None:
    op.create_table(
        "policies",
        sa.Column("workspace", sa.String(), nullable=False),
        sa.Column("json", sa.Text(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("workspace"),
    )


def _records() -> None:
    op.create_table(
        "records",
        sa.Column("seq", _ID, nullable=False),
        sa.Column("workspace", sa.String(), nullable=False),
        sa.Column("session", sa.String(), nullable=False),
        sa.Column("identity", sa.String(), nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
        sa.Column("json", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
        sa.UniqueConstraint("workspace", "session", "identity"),
    )


def _sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("workspace", sa.String(), nullable=False),
        sa.Column("session", sa.String(), nullable=False),
        sa.Column("standing", sa.LargeBinary(), nullable=False),
        sa.Column("shown", sa.String(), nullable=False),
        sa.Column("cache_max_rows", sa.Integer(), nullable=False),
        sa.Column("last_seen_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("workspace", "session"),
    )
    op.create_index("sessions_by_last_seen", "sessions", ["last_seen_ms"], unique=False)
    op.create_index("sessions_by_shown", "sessions", ["workspace", "shown"], unique=False)


def _spend() -> None:
    op.create_table(
        "spend",
        sa.Column("job_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("token", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("workspace", sa.String(), nullable=False),
        sa.Column("session", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("reserved_picodollars", sa.BigInteger(), nullable=False),
        sa.Column("settled_picodollars", sa.BigInteger(), nullable=True),
        sa.Column("input_tokens", sa.Integer(), nullable=False),
        sa.Column("output_tokens", sa.Integer(), nullable=False),
        sa.Column("day", sa.String(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "token"),
    )
    op.create_index("spend_by_day", "spend", ["workspace", "day"], unique=False)
    op.create_index("spend_by_session", "spend", ["workspace", "session"], unique=False)


def _summaries() -> None:
    op.create_table(
        "summaries",
        sa.Column("workspace", sa.String(), nullable=False),
        sa.Column("cache_key", sa.String(), nullable=False),
        sa.Column("summary_text", sa.Text(), nullable=False),
        sa.Column("summarization_model", sa.String(), nullable=False),
        sa.Column("summarization_prompt_version", sa.String(), nullable=False),
        sa.Column("span_message_count", sa.Integer(), nullable=False),
        sa.Column("span_token_count_in", sa.Integer(), nullable=False),
        sa.Column("span_token_count_out", sa.Integer(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_read_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("use_count", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("dialect", sa.String(), nullable=False),
        sa.Column("head", sa.LargeBinary(), nullable=False),
        sa.Column("start", sa.Integer(), nullable=False),
        sa.Column("end", sa.Integer(), nullable=False),
        sa.Column("parent", sa.String(), nullable=False),
        sa.Column("block", sa.LargeBinary(), nullable=False),
        sa.Column("cost_picodollars", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("workspace", "cache_key"),
    )
    op.create_index("summaries_by_last_read", "summaries", ["workspace", "last_read_at_ms"], unique=False)


def _waiters() -> None:
    op.create_table(
        "waiters",
        sa.Column("workspace", sa.String(), nullable=False),
        sa.Column("session", sa.String(), nullable=False),
        sa.Column("cache_key", sa.String(), nullable=False),
        sa.Column("turn_id", sa.String(), nullable=False),
        sa.Column("watermark_before", sa.Integer(), nullable=False),
        sa.Column("start", sa.Integer(), nullable=False),
        sa.Column("end", sa.Integer(), nullable=False),
        sa.Column("head_end", sa.LargeBinary(), nullable=False),
        sa.Column("urgency", sa.String(), nullable=False),
        sa.Column("budget_picodollars", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("workspace", "session", "cache_key"),
    )
    op.create_index("waiters_by_key", "waiters", ["workspace", "cache_key"], unique=False)
    op.create_index("waiters_by_state", "waiters", ["state"], unique=False)
