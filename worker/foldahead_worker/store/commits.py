"""The commit: summary, job and spend in one transaction."""

from msgspec import Struct
from sqlalchemy import Connection, select

from foldahead_worker.store.engine import Store
from foldahead_worker.store.leases import finish
from foldahead_worker.store.rows import keyed
from foldahead_worker.store.schema import waiters
from foldahead_worker.store.spend import Bill, settle
from foldahead_worker.store.summaries import Summary, insert_summary, summary_in
from foldahead_worker.store.waiters import Waiter, waiting_in


class Committed(Struct, frozen=True, kw_only=True):
    """What became of an answer. Sessions are told of `summary`: the first that was stored for its key."""

    stored: bool
    """This answer was the first for its key."""
    finished: bool
    """The lease was still held: the job is done, and `waiters` are to be told."""
    summary: Summary | None
    """None: all sessions that had asked were forgotten meanwhile, so nothing was kept."""
    waiters: tuple[Waiter, ...]


def commit(store: Store, job_id: int, token: int, summary: Summary, now_ms: int, bill: Bill | None = None) -> Committed:
    """Stores a verified answer if its key is still empty, ends the job and settles the spend.

    A worker that lost its lease stores what it has all the same, but the job stays as it is: whoever has
    it now finds the summary. For a cache hit, commit the summary that was found, with `Bill()`.
    """
    with store.writing(durable=True) as connection:
        finished = finish(connection, job_id, token, now_ms)
        settle(connection, job_id, token, bill)
        stored = _asked_for(connection, summary) and insert_summary(connection, summary)
        return Committed(
            stored=stored,
            finished=finished,
            summary=summary if stored else summary_in(connection, summary.workspace, summary.cache_key),
            waiters=waiting_in(connection, summary.workspace, summary.cache_key) if finished else (),
        )


def _asked_for(connection: Connection, summary: Summary) -> bool:
    query = select(waiters.c.session).where(keyed(waiters, [(summary.workspace, summary.cache_key)]))
    # Locked: a session that is forgotten at this moment comes before or after, and takes its summary along.
    return connection.execute(query.limit(1).with_for_update()).first() is not None
