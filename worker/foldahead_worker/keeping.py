"""Keeping what agents report: records and events from the inbox to the database, and what a restart of Redis lost back."""

import logging
import re

import msgspec

from foldahead import keys, wire
from foldahead.calls import record_id
from foldahead.core.events import Envelope
from foldahead.errors import UnusableRecord
from foldahead_worker.clock import now_ms
from foldahead_worker.delivery import ready_from
from foldahead_worker.inbox import InboxEntry
from foldahead_worker.metrics import Metrics
from foldahead_worker.store import Store
from foldahead_worker.store.events import EventRow, append_events
from foldahead_worker.store.records import RecordRow, append_records, records_of
from foldahead_worker.store.sessions import forget_session, load_session
from foldahead_worker.store.waiters import passed_by, ready_for
from foldahead_worker.switchboard import Switchboard

ENTRIES_AT_ONCE = 500
RESTORES_AT_ONCE = 50
_MOST_INDEX = 2**31 - 1
_EVENT_TYPE = re.compile(r"session\.[a-z_]{1,64}")
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

    def keep(self, block_ms: int) -> int:
        """Store what is in the inbox, waiting up to `block_ms` for something. Returns how many entries."""
        entries = self._switchboard.inbox.read(self._name, ENTRIES_AT_ONCE, block_ms)
        append_records(self._store, [_record_row(entry) for entry in entries if _is_record(entry)])
        told = [event for entry in entries if entry.kind == "event" and (event := _told(entry)) is not None]
        events = [_event_row(event) for event in told]
        append_events(self._store, events)
        for event, row in zip(told, events, strict=True):
            self._hear(event)
            self._switchboard.add_event(row.json.encode())
        for entry in entries:
            if entry.kind == "forget":
                forget_session(self._store, *keys.names_of(entry.member))
        self._switchboard.inbox.acknowledge([entry.entry_id for entry in entries])
        return len(entries)

    def _hear(self, event: Envelope) -> None:
        """The figures and the log of what an agent did."""
        self._metrics.heard(event)
        session, cache_key = str(event.payload["session_id"]), event.payload.get("cache_key")
        told = {name: event.payload[name] for name in _TOLD if isinstance(event.payload.get(name), int)}
        if isinstance(cache_key, str):
            told["cache_key"] = cache_key[:12]
        _log.info(event.type.rpartition(".")[2], extra={"workspace": event.workspace, "session": session, **told})
        if event.type == "session.swapped" and isinstance(cache_key, str):
            watermark = min(told.get("watermark_after", 0), _MOST_INDEX)
            self._metrics.passed(passed_by(self._store, event.workspace, session, cache_key, watermark))

    def restore(self) -> int:
        """Give sessions back that agents asked for and Redis does not know. Returns how many were asked for."""
        members = self._switchboard.pop_restores(RESTORES_AT_ONCE)
        for member in members:
            workspace, session = keys.names_of(member)
            row = load_session(self._store, workspace, session)
            ready = [ready_from(found.summary) for found in ready_for(self._store, workspace, session)]
            records = list(filter(_identity, records_of(self._store, workspace, session)))
            self._switchboard.restore(member, _standing(row.standing) if row else None, ready, records)
        return len(members)


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
    return RecordRow(workspace=workspace, session=session, identity=entry.item_id.hex(), json=entry.data)


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


def _event_row(event: Envelope) -> EventRow:
    return EventRow(
        kind=event.type,
        workspace=event.workspace,
        session=str(event.payload["session_id"]),
        json=msgspec.json.encode(event).decode(),
        created_at_ms=now_ms(),
    )
