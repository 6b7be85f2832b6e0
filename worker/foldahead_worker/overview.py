"""What is going on, for one screen: sessions near their threshold, the queue, spend, what went wrong."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from foldahead import keys
from foldahead.core.events import Envelope
from foldahead_worker.clock import now_ms
from foldahead_worker.figures import Seen
from foldahead_worker.readings import Reading, take_reading
from foldahead_worker.store import Store
from foldahead_worker.store.events import EventRow, newest_events
from foldahead_worker.store.spend import day_of, spent_on
from foldahead_worker.switchboard import Switchboard

MOST_SESSIONS = 5_000
"""Looked at for one screen; of more, some are left out, and the screen says so."""
FAILURES = ("session.compaction_failed", "session.rejected")


class SessionLine(Struct, frozen=True, kw_only=True):
    """One session as the screen shows it. `part`: pending tokens as a part of the threshold."""

    workspace: str
    session: str
    pending_tokens: int
    threshold_tokens: int
    part: float
    state: str
    idle_s: float
    turns: int


class FailureLine(Struct, frozen=True, kw_only=True):
    """One compaction that failed, or view that was refused."""

    at_ms: int
    workspace: str
    session: str
    what: str


class Overview(Struct, frozen=True, kw_only=True):
    """One screen."""

    sessions: tuple[SessionLine, ...]
    """The nearest to their thresholds, those first that are furthest past it."""
    sessions_seen: int
    all_seen: bool
    reading: Reading
    usd_today: float
    failures: tuple[FailureLine, ...]


def take_overview(store: Store, switchboard: Switchboard, rows: int) -> Overview:
    """Ask Redis and the database. Raises `StoreError` and redis.RedisError."""
    seen = switchboard.figures.sessions(MOST_SESSIONS)
    return Overview(
        sessions=nearest(seen, rows),
        sessions_seen=len(seen),
        all_seen=len(seen) < MOST_SESSIONS,
        reading=take_reading(store, switchboard),
        usd_today=spent_on(store, day_of(now_ms())) / 1_000_000_000_000,
        failures=tuple(map(_failure, newest_events(store, FAILURES, limit=5))),
    )


def nearest(seen: Sequence[Seen], rows: int) -> tuple[SessionLine, ...]:
    """The sessions that are nearest to their thresholds, or furthest past them. Pure."""
    lines = sorted(map(_line, seen), key=lambda line: (-line.part, line.workspace, line.session))
    return tuple(lines[:rows])


def _line(seen: Seen) -> SessionLine:
    armed = seen.armed
    workspace, session = keys.names_of(armed.member)
    standing = armed.standing
    return SessionLine(
        workspace=workspace,
        session=session,
        pending_tokens=standing.pending_tokens,
        threshold_tokens=standing.policy.threshold,
        part=standing.pending_tokens / standing.policy.threshold,
        state=state_of(seen),
        idle_s=seen.idle_s,
        turns=standing.turns,
    )


def state_of(seen: Seen) -> str:
    """In a few words what a session is at. Pure."""
    armed, standing = seen.armed, seen.armed.standing
    if armed.job:
        return "a summary is being made"
    if standing.at_hard_cap:
        return "at its hard cap"
    if armed.failed:
        return f"failed: {armed.failed}"
    if standing.pending_tokens >= standing.policy.threshold:
        return standing.no_offer_reason or "past its threshold"
    if standing.shown is not None:
        return "has a summary"
    return ""


def _failure(event: EventRow) -> FailureLine:
    payload = msgspec.json.decode(event.json, type=Envelope).payload
    why = payload.get("error_class") or payload.get("failure_mode") or ""
    return FailureLine(
        at_ms=event.created_at_ms,
        workspace=event.workspace,
        session=event.session,
        what=f"{event.kind.rpartition('.')[2]} {why}".strip(),
    )
