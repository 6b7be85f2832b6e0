"""The tables. Times are integer milliseconds, money integer picodollars, heads 32 bytes.

Every row names its workspace, and every key begins with it: nothing is found from another workspace.
"""

from typing import Any, Literal

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)

SCHEMA_VERSION = 3

JobState = Literal["queued", "leased", "done", "failed"]
Urgency = Literal["ahead", "forced"]
WaiterState = Literal["waiting", "ready", "shown", "given_up"]


class Name(TypeDecorator[str]):
    """A name that a caller chose. PostgreSQL takes no NUL in a text, so NUL and % are escaped, reversibly."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else value.replace("%", "%25").replace("\0", "%00")

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else value.replace("%00", "\0").replace("%25", "%")


class Prose(TypeDecorator[str]):
    """A text that a model or an error wrote. What no database takes (NUL, lone surrogates) becomes U+FFFD."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else storable(value)


def storable(text: str) -> str:
    """A text as the database will give it back."""
    return text.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


metadata = MetaData()
# SQLite counts only INTEGER primary keys up by itself.
_ID = BigInteger().with_variant(Integer, "sqlite")


def _ms(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False)


def _count(name: str) -> Column[int]:
    return Column(name, Integer, nullable=False)


def _name(name: str, **options: Any) -> Column[str]:
    return Column(name, Name, nullable=False, **options)


def _word(name: str) -> Column[str]:
    return Column(name, String, nullable=False)


VERSION_TABLE = "alembic_version"
# Alembic's own, and no part of `metadata`: one row, the version in four digits.
schema_version = Table(VERSION_TABLE, MetaData(), Column("version_num", String(32), primary_key=True))

summaries = Table(
    "summaries",
    metadata,
    _name("workspace", primary_key=True),
    Column("cache_key", String, primary_key=True),
    Column("summary_text", Prose, nullable=False),
    _name("summarization_model"),
    _word("summarization_prompt_version"),
    _count("span_message_count"),
    _count("span_token_count_in"),
    _count("span_token_count_out"),
    _ms("created_at_ms"),
    _ms("last_read_at_ms"),
    _count("use_count"),
    _word("kind"),
    _word("dialect"),
    Column("head", LargeBinary, nullable=False),
    _count("start"),
    _count("end"),
    _word("parent"),
    Column("block", LargeBinary, nullable=False),
    _word("envelope"),
    Column("keeps_thinking", Boolean, nullable=False),
    _count("bare_until"),
    Column("cost_picodollars", BigInteger, nullable=False),
    Index("summaries_by_last_read", "workspace", "last_read_at_ms"),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", _ID, primary_key=True),
    _name("workspace"),
    _word("cache_key"),
    Column("request", LargeBinary, nullable=False),
    _word("kind"),
    _name("model"),
    _word("parent"),
    _word("state"),
    _word("urgency"),
    _ms("deadline_ms"),
    _ms("not_before_ms"),
    _count("attempts"),
    _count("max_attempts"),
    _count("token"),
    _count("heartbeat"),
    _word("owner"),
    Column("reason", Prose, nullable=False),
    _word("error_class"),
    _ms("created_at_ms"),
    _ms("updated_at_ms"),
    _ms("sent_at_ms"),
    UniqueConstraint("workspace", "cache_key"),
    # All that the choice of the best due job looks at, so that it reads no row but the one it takes.
    Index("jobs_by_state", "state", "urgency", "workspace", "deadline_ms", "not_before_ms", "kind", "model"),
    sqlite_autoincrement=True,  # an id is never used again: spend names jobs that are gone
)

waiters = Table(
    "waiters",
    metadata,
    _name("workspace", primary_key=True),
    _name("session", primary_key=True),
    Column("cache_key", String, primary_key=True),
    _name("turn_id"),
    _count("watermark_before"),
    _count("start"),
    _count("end"),
    Column("head_end", LargeBinary, nullable=False),
    _word("urgency"),
    Column("budget_picodollars", BigInteger, nullable=False),
    _word("state"),
    _ms("created_at_ms"),
    Index("waiters_by_key", "workspace", "cache_key"),
    Index("waiters_by_state", "state"),
)

records = Table(
    "records",
    metadata,
    Column("seq", _ID, primary_key=True),
    _name("workspace"),
    _name("session"),
    _word("identity"),
    Column("place", BigInteger, nullable=False),
    Column("json", LargeBinary, nullable=False),
    UniqueConstraint("workspace", "session", "identity"),
)

sessions = Table(
    "sessions",
    metadata,
    _name("workspace", primary_key=True),
    _name("session", primary_key=True),
    Column("standing", LargeBinary, nullable=False),
    _word("shown"),
    _count("cache_max_rows"),
    _ms("last_seen_ms"),
    Index("sessions_by_last_seen", "last_seen_ms"),
    Index("sessions_by_shown", "workspace", "shown"),
)

policies = Table(
    "policies",
    metadata,
    _name("workspace", primary_key=True),
    Column("json", Text, nullable=False),
    _ms("updated_at_ms"),
)

spend = Table(
    "spend",
    metadata,
    Column("job_id", BigInteger, primary_key=True, autoincrement=False),
    Column("token", Integer, primary_key=True, autoincrement=False),
    _name("workspace"),
    _name("session"),
    _name("model"),
    _word("kind"),
    Column("reserved_picodollars", BigInteger, nullable=False),
    Column("settled_picodollars", BigInteger, nullable=True),
    _count("input_tokens"),
    _count("output_tokens"),
    _word("day"),
    _ms("created_at_ms"),
    Index("spend_by_session", "workspace", "session"),
    Index("spend_by_day", "workspace", "day"),
)

events = Table(
    "events",
    metadata,
    Column("id", _ID, primary_key=True),
    _word("kind"),
    _name("workspace"),
    _name("session"),
    Column("identity", String, nullable=True),  # of an agent's event; NULLs are no two alike
    Column("json", Text, nullable=False),
    _ms("created_at_ms"),
    UniqueConstraint("workspace", "session", "identity"),
    Index("events_by_session", "workspace", "session", "id"),
    sqlite_autoincrement=True,  # readers go on after the last id they saw
)
