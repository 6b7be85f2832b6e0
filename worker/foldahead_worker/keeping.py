"""Keeping what agents report: records and events from the inbox to the database, and back what Redis lost."""

import logging
import re
from collections.abc import Sequence
from itertools import groupby

import msgspec
import redis

from foldahead import keys, wire
from foldahead.calls import record_id
from foldahead.core.events import Envelope
from foldahead.errors import UnusableRecord
from foldahead_worker.apart import done_apart
from foldahead_worker.clock import now_ms
from foldahead_worker.delivery import ready_from
from foldahead_worker.inbox import InboxEntry, number_of
from foldahead_worker.metrics import Metrics
from foldahead_worker.reasons import Reasons
from foldahead_worker.refusals import REJECTED, look_at_refusals
from foldahead_worker.store import Store, StoreError
from foldahead_worker.store.events import EventRow, append_events
from foldahead_worker.store.records import RecordRow, append_records, placed_records_of
from foldahead_worker.store.sessions import close_session, forget_session, load_session
from foldahead_worker.store.waiters import failed_in_a_row, passed_by, ready_for
from foldahead_worker.switchboard import Failures, Switchboard

ENTRIES_AT_ONCE = 500
RESTORES_AT_ONCE = 50
_MOST_INDEX = 2**31 - 1
_EVENT_TYPE = re.compile(r"session\.[a-z_]{1,64}")
_CACHE_KEY = re.compile(r"[0-9a-f]{64}")
_TOLD = ("watermark_after", "tokens_before", "tokens_after", "waited_turns", "result_count", "truncated_message_count")
"""What of an event's payload the log says: counts, never words."""
_log = logging.getLogger("foldahead.keeping")


class Keeper:
    """Reads the inbox and restores sessions. `name` tells this watcher from others in the consumer group."""

    def __init__(self, name: str, store: Store, switchboard: Switchboard, metrics: Metrics | None = None) -> None:
        self._name = name
        self._store = store
        self._switchboard = switchboard
        self._metrics = metrics or Metrics()
        self._unrestored = Reasons()

    def keep(self, block_ms: int) -> int:
        """Store what is in the inbox, waiting up to `block_ms` for something. Returns how many entries."""
        entries = self._switchboard.inbox.read(self._name, ENTRIES_AT_ONCE, block_ms)
        # In the order of the stream: a name that is forgotten and used again keeps what it reports from then on.
        for is_report, some in groupby(entries, lambda entry: entry.kind in ("record", "event")):
            do = self._keep_reports if is_report else self._end_sessions
            done_apart(tuple(some), do, self._set_aside)
        self._switchboard.inbox.acknowledge([entry.entry_id for entry in entries])
        return len(entries)

    def _keep_reports(self, entries: Sequence[InboxEntry]) -> None:
        append_records(self._store, [_record_row(entry) for entry in entries if _is_record(entry)])
        told: dict[object, Envelope] = {}
        rows: list[EventRow] = []
        for entry in entries:
            if entry.kind == "event" and (event := _told(entry)) is not None:
                rows.append(_event_row(entry, event))
                told.setdefault(rows[-1].identity_in_all, event)
        # What is there already was heard already, by a watcher that did not come to acknowledge it.
        added = append_events(self._store, rows)
        for row in added:
            self._hear(told[row.identity_in_all])
            self._switchboard.add_event(row.json.encode())
        refused = [row.workspace for row in added if row.kind == REJECTED]
        look_at_refusals(self._store, self._switchboard, refused, now_ms())

    def _end_sessions(self, entries: Sequence[InboxEntry]) -> None:
        for entry in entries:
            workspace, session = keys.names_of(entry.member)
            if entry.kind == "forget":
                forget_session(self._store, workspace, session, number_of(entry.data) or None)
            elif self._switchboard.armed.wants_nothing(entry.member):  # else it was opened again
                close_session(self._store, workspace, session, now_ms())

    def _set_aside(self, entry: InboxEntry, error: Exception) -> None:
        workspace, session = keys.names_of(entry.member)
        self._metrics.set_aside("inbox")
        told = {"workspace": workspace, "session": session, "entry": entry.entry_id, "kind": entry.kind}
        _log.error("a report is not kept: %s", type(error).__name__, exc_info=error, extra=told)

    def _hear(self, event: Envelope) -> None:
        """The figures and the log of what an agent did."""
        self._metrics.heard(event)
        session, cache_key = str(event.payload["session_id"]), _cache_key(event.payload.get("cache_key"))
        told = {name: event.payload[name] for name in _TOLD if isinstance(event.payload.get(name), int)}
        if cache_key:
            told["cache_key"] = cache_key[:12]
        _log.info(event.type.rpartition(".")[2], extra={"workspace": event.workspace, "session": session, **told})
        if event.type == "session.swapped" and cache_key:
            watermark = min(told.get("watermark_after", 0), _MOST_INDEX)
            self._metrics.passed(passed_by(self._store, event.workspace, session, cache_key, watermark))

    def restore(self) -> int:
        """Give sessions back that agents asked for and Redis does not know. Returns how many were asked for."""
        members = self._switchboard.pop_restores(RESTORES_AT_ONCE)
        for at, member in enumerate(members):
            try:
                done_apart([member], lambda one: self._restore(one[0]), self._no_restore)
            except (StoreError, redis.RedisError):
                self._switchboard.ask_restores(members[at:])
                raise
        return len(members)

    def _restore(self, member: str) -> None:
        workspace, session = keys.names_of(member)
        row = load_session(self._store, workspace, session)
        ready = [ready_from(found.summary) for found in ready_for(self._store, workspace, session)]
        placed = placed_records_of(self._store, workspace, session)
        records = [(place, record) for place, record in placed if _identity(record)]
        failed = failed_in_a_row(self._store, workspace, session)
        failures = Failures(in_a_row=failed.in_a_row, ms_ago=max(0, now_ms() - failed.last_ms))
        self._switchboard.restore(member, _standing(row.standing) if row else None, ready, records, failures)

    def _no_restore(self, member: str, error: Exception) -> None:
        """Its agent asks again and again: said once."""
        self._metrics.set_aside("restore")
        if self._unrestored.is_news(member, type(error).__name__):
            workspace, session = keys.names_of(member)
            told = {"workspace": workspace, "session": session}
            _log.error("not restored: %s", type(error).__name__, exc_info=error, extra=told)


def _cache_key(said: object) -> str:
    """A cache key that an agent's event names; empty for what is none."""
    return said if isinstance(said, str) and _CACHE_KEY.fullmatch(said) else ""


def _standing(encoded: bytes) -> wire.Standing | None:
    try:
        return wire.decode(encoded, wire.Standing)
    except UnusableRecord as error:
        _log.warning("a stored standing is not usable: %s", error)
        return None


def _is_record(entry: InboxEntry) -> bool:
    """Whether an entry names a record and Redis has it: one that is gone, or is none, cannot be kept."""
    return entry.kind == "record" and _identity(entry.data) == entry.item_id


def _identity(record: bytes) -> bytes:
    try:
        return record_id(record)
    except (UnusableRecord, RecursionError):
        return b""


def _record_row(entry: InboxEntry) -> RecordRow:
    workspace, session = keys.names_of(entry.member)
    identity = entry.item_id.hex()
    return RecordRow(workspace=workspace, session=session, identity=identity, json=entry.data, place=entry.place)


def _told(entry: InboxEntry) -> Envelope | None:
    """An agent's event under the names that its key says, whatever it says of itself; None for what is none."""
    workspace, session = keys.names_of(entry.member)
    try:
        told = msgspec.json.decode(entry.data, type=Envelope)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        _log.warning("an event is not usable: %s", error, extra={"workspace": workspace, "session": session})
        return None
    if not _EVENT_TYPE.fullmatch(told.type):
        _log.warning("an event has no name of ours", extra={"workspace": workspace, "session": session})
        return None
    return msgspec.structs.replace(told, workspace=workspace, payload=told.payload | {"session_id": session})


def _event_row(entry: InboxEntry, event: Envelope) -> EventRow:
    return EventRow(
        kind=event.type,
        workspace=event.workspace,
        session=str(event.payload["session_id"]),
        identity=entry.item_id.decode("ascii", "replace").replace("\0", "\ufffd"),
        json=msgspec.json.encode(event).decode(),
        created_at_ms=now_ms(),
    )
