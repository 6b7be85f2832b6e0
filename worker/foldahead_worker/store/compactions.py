"""What was compacted of a session: each summary that it asked for, and what became of it."""

from msgspec import Struct
from sqlalchemy import func, select

from foldahead_worker.store.engine import Store
from foldahead_worker.store.rows import all_of
from foldahead_worker.store.schema import Urgency, WaiterState, jobs, summaries, waiters


class Compaction(Struct, frozen=True, kw_only=True):
    """One summary that a session asked for. Without a job the row was tidied away; without a text there is none."""

    cache_key: str
    state: WaiterState
    urgency: Urgency
    turn_id: str
    start: int
    end: int
    asked_at_ms: int
    job_id: int = 0
    job_state: str = ""
    attempts: int = 0
    reason: str = ""
    error_class: str = ""
    kind: str = ""
    model: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    made_at_ms: int = 0
    cost_picodollars: int = 0
    text: str = ""


def compactions_of(store: Store, workspace: str, session: str, limit: int = 1000) -> tuple[Compaction, ...]:
    """A session's compactions in the order in which they were asked for, the newest `limit`."""
    ask, job, made = waiters.c, jobs.c, summaries.c
    of_job = (job.workspace == ask.workspace) & (job.cache_key == ask.cache_key)
    of_summary = (made.workspace == ask.workspace) & (made.cache_key == ask.cache_key)
    query = (
        select(
            ask.cache_key,
            ask.state,
            ask.urgency,
            ask.turn_id,
            ask.start,
            ask.end,
            ask.created_at_ms.label("asked_at_ms"),
            func.coalesce(job.id, 0).label("job_id"),
            func.coalesce(job.state, "").label("job_state"),
            func.coalesce(job.attempts, 0).label("attempts"),
            func.coalesce(job.reason, "").label("reason"),
            func.coalesce(job.error_class, "").label("error_class"),
            func.coalesce(made.kind, job.kind, "").label("kind"),
            func.coalesce(made.summarization_model, job.model, "").label("model"),
            func.coalesce(made.span_token_count_in, 0).label("tokens_in"),
            func.coalesce(made.span_token_count_out, 0).label("tokens_out"),
            func.coalesce(made.created_at_ms, 0).label("made_at_ms"),
            func.coalesce(made.cost_picodollars, 0).label("cost_picodollars"),
            func.coalesce(made.summary_text, "").label("text"),
        )
        .outerjoin(jobs, of_job)
        .outerjoin(summaries, of_summary)
        .where(ask.workspace == workspace, ask.session == session)
        .order_by(ask.created_at_ms.desc(), ask.end.desc())
        .limit(limit)
    )
    with store.reading() as connection:
        return tuple(reversed(all_of(connection, query, Compaction)))


def sessions_named(store: Store, session: str, limit: int = 20) -> tuple[str, ...]:
    """Workspaces that have a session of that name."""
    query = select(waiters.c.workspace).where(waiters.c.session == session).distinct().limit(limit)
    with store.reading() as connection:
        return tuple(sorted(connection.scalars(query)))


def latest_sessions(store: Store, limit: int = 5) -> tuple[str, ...]:
    """Those that asked for a summary last, as `workspace/session`, the newest first."""
    ask = waiters.c
    newest = func.max(ask.created_at_ms)
    query = select(ask.workspace, ask.session).group_by(ask.workspace, ask.session).order_by(newest.desc()).limit(limit)
    with store.reading() as connection:
        return tuple(f"{workspace}/{session}" for workspace, session in connection.execute(query))
