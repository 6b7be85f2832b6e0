"""Summaries, found by what was asked: the cache that all sessions of a workspace share."""

from collections.abc import Collection, Mapping

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, bindparam, case, delete, exists, or_, select, update

from foldahead.core.request import SummaryKind, SummaryRequest
from foldahead_worker.store.engine import Store
from foldahead_worker.store.rows import chunks, columns_of, insert_into, keyed, one_of, values_of
from foldahead_worker.store.schema import jobs, sessions, storable, summaries, waiters


class Summary(Struct, frozen=True, kw_only=True):
    """One verified summary. The first twelve fields are the first seed's cache row, the others ours.

    It stands for the messages `start`..`end` of a history whose chain head at `end` is `head` (32 bytes).
    """

    workspace: str
    cache_key: str
    summary_text: str
    summarization_model: str
    summarization_prompt_version: str
    span_message_count: int
    span_token_count_in: int
    span_token_count_out: int
    created_at_ms: int
    last_read_at_ms: int
    use_count: int = 0
    kind: SummaryKind
    dialect: str
    head: bytes
    start: int
    end: int
    parent: str = ""
    """Cache key of the summary that this one took in."""
    block: bytes = b""
    """`native`: the block that the provider signed, JSON, byte for byte."""
    envelope: str = ""
    """`native`: digest of the envelope that the block was made under."""
    keeps_thinking: bool = False
    """`native`: thinking in the turns behind the block stays valid, ..."""
    bare_until: int = 0
    """... where that of the messages before this index was left out."""
    cost_picodollars: int = 0


def new_summary(
    request: SummaryRequest,
    *,
    text: str,
    block: bytes = b"",
    span_tokens: int,
    summary_tokens: int,
    cost_picodollars: int,
    now_ms: int,
) -> Summary:
    """The row for an answer to a request."""
    return Summary(
        workspace=request.workspace,
        cache_key=request.cache_key,
        summary_text=storable(text),
        summarization_model=request.model,
        summarization_prompt_version=request.prompt_version,
        span_message_count=request.message_count,
        span_token_count_in=span_tokens,
        span_token_count_out=summary_tokens,
        created_at_ms=now_ms,
        last_read_at_ms=now_ms,
        kind=request.kind,
        dialect=request.dialect,
        head=bytes.fromhex(request.head),
        start=request.start,
        end=request.end,
        parent=request.parent,
        block=block,
        envelope=request.envelope_digest,
        keeps_thinking=request.keeps_thinking,
        bare_until=request.bare_until,
        cost_picodollars=cost_picodollars,
    )


def find_summary(store: Store, workspace: str, cache_key: str) -> Summary | None:
    """The summary of that key in that workspace. Reading does not touch it: see `touch`."""
    with store.reading() as connection:
        return summary_in(connection, workspace, cache_key)


def summary_in(connection: Connection, workspace: str, cache_key: str) -> Summary | None:
    """`find_summary` within a transaction."""
    query = select(*columns_of(summaries, Summary)).where(keyed(summaries, [(workspace, cache_key)]))
    return one_of(connection, query, Summary)


def existing(store: Store, keys: Collection[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    """Those of some (workspace, cache_key) under which there is a summary."""
    found: set[tuple[str, str]] = set()
    with store.reading() as connection:
        for some in chunks(sorted(keys)):
            query = select(summaries.c.workspace, summaries.c.cache_key).where(keyed(summaries, some))
            found.update((row.workspace, row.cache_key) for row in connection.execute(query))
    return frozenset(found)


def insert_summary(connection: Connection, summary: Summary) -> bool:
    """Stores a summary if its key is still empty, and says whether it was."""
    insert = insert_into(connection, summaries).values(values_of(summary)).on_conflict_do_nothing()
    return connection.execute(insert.returning(summaries.c.cache_key)).first() is not None


def touch(store: Store, uses: Mapping[tuple[str, str], int], now_ms: int) -> None:
    """Counts uses of (workspace, cache_key), many at once, so that they are evicted last."""
    if not uses:
        return
    with store.writing() as connection:
        _touch(connection, uses, now_ms)


def touch_found(connection: Connection, keys: list[tuple[str, str]], now_ms: int) -> set[tuple[str, str]]:
    """Which of some keys are there: each counted as used, so that an eviction under way leaves it."""
    query = select(summaries.c.workspace, summaries.c.cache_key).where(keyed(summaries, keys))
    # Locked in one order, so that two batches never wait for each other.
    query = query.order_by(summaries.c.workspace, summaries.c.cache_key).with_for_update()
    found = {(row.workspace, row.cache_key) for row in connection.execute(query)}
    if found:
        _touch(connection, dict.fromkeys(found, 1), now_ms)
    return found


def _touch(connection: Connection, uses: Mapping[tuple[str, str], int], now_ms: int) -> None:
    row = summaries.c
    later = case((row.last_read_at_ms < now_ms, now_ms), else_=row.last_read_at_ms)
    statement = (
        update(summaries)
        .where(row.workspace == bindparam("of_workspace"), row.cache_key == bindparam("of_key"))
        .values(last_read_at_ms=later, use_count=row.use_count + bindparam("uses"))
    )
    named = [{"of_workspace": w, "of_key": key, "uses": count} for (w, key), count in sorted(uses.items())]
    connection.execute(statement, named)


def evict(store: Store, workspace: str, max_rows: int) -> int:
    """Removes what was read longest ago beyond `max_rows`, and says how many rows that were.

    Rows that a session shows or waits for, or that an open job folds in, neither count nor go.
    """
    row = summaries.c
    with store.writing() as connection:
        query = (
            select(row.cache_key, row.use_count)
            .where(row.workspace == workspace, ~_in_use())
            .order_by(row.last_read_at_ms.desc(), row.cache_key)
            .offset(max_rows)
        )
        doomed = [{"key": found.cache_key, "uses": found.use_count} for found in connection.execute(query)]
        if not doomed:
            return 0
        # A row that was used since it was chosen has another count, and stays.
        unused = (row.cache_key == bindparam("key"), row.use_count == bindparam("uses"))
        return connection.execute(delete(summaries).where(row.workspace == workspace, *unused), doomed).rowcount


def _in_use() -> ColumnElement[bool]:
    row = summaries.c
    awaited = exists().where(
        waiters.c.workspace == row.workspace,
        waiters.c.cache_key == row.cache_key,
        waiters.c.state.in_(("waiting", "ready", "shown")),
    )
    shown = exists().where(sessions.c.workspace == row.workspace, sessions.c.shown == row.cache_key)
    folded = exists().where(
        jobs.c.workspace == row.workspace,
        jobs.c.parent == row.cache_key,
        jobs.c.state.in_(("queued", "leased")),
    )
    return or_(awaited, shown, folded)
