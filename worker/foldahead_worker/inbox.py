"""What agents report and the database is to keep: records, events, sessions to be closed and forgotten.

A capped Redis stream with one consumer group for all watchers. An entry is given again until it is
acknowledged, so whoever reads it keeps it once, by its id.
"""

from typing import Any, Literal

import msgspec
import redis
from msgspec import Struct

from foldahead import keys

GROUP = "watchers"
MAX_BLOCK_MS = 4_000
"""redis-py gives up a blocking read after its socket timeout, 5 s by default."""
CLAIM_IDLE_MS = 60_000
"""An entry that a watcher was given so long ago, by Redis's clock, is given to another."""

_MOST_PLACE_DIGITS = 18
_FIELDS = frozenset((b"kind", b"member", b"id", b"data"))

InboxKind = Literal["record", "event", "close", "forget"]
_MOST_ITEM_ID = 128


class InboxEntry(Struct, frozen=True, kw_only=True):
    """One report of an agent. `item_id` is a record's identity, or `incarnation:number` of an event."""

    entry_id: str
    kind: InboxKind
    member: str
    item_id: bytes = b""
    data: bytes = b""
    """JSON of the record or event; of `forget` the place before which records go."""
    place: int = 0
    """Of a record among those of its session."""


class InboxCounts(Struct, frozen=True, kw_only=True):
    """How full the inbox is."""

    entries: int
    lag: int
    pending: int


class Inbox:
    """The readers' side of the stream."""

    def __init__(self, client: "redis.Redis") -> None:
        self._client: Any = client

    def read(self, consumer: str, count: int, block_ms: int) -> list[InboxEntry]:
        """Up to `count` entries: first those that another watcher left lying, else new ones, waited for.

        Entries of a kind that this version does not know stay unacknowledged, for one that does; what no
        version of ours can have written is passed over for good.
        """
        raw = self._claim(consumer, count) or self._read_new(consumer, count, block_ms)
        self.acknowledge([entry[0].decode() for entry in raw if _is_malformed(entry[1] or {})])
        return self._with_records([entry for entry in map(_read_entry, raw) if entry is not None])

    def acknowledge(self, entry_ids: list[str]) -> None:
        """These are kept: nobody is given them again."""
        if entry_ids:
            self._client.xack(keys.INBOX_STREAM, GROUP, *entry_ids)

    def counts(self) -> InboxCounts:
        """Entries there are, not yet given to a watcher, and given but not acknowledged."""
        try:
            groups: list[dict[str, Any]] = self._client.xinfo_groups(keys.INBOX_STREAM)
        except redis.ResponseError:
            return InboxCounts(entries=0, lag=0, pending=0)
        entries: int = self._client.xlen(keys.INBOX_STREAM)
        for group in groups:
            if group["name"] in (GROUP, GROUP.encode()):
                return InboxCounts(entries=entries, lag=group.get("lag") or 0, pending=group["pending"])
        return InboxCounts(entries=entries, lag=entries, pending=0)

    def _claim(self, consumer: str, count: int) -> list[Any]:
        try:
            claimed = self._client.xautoclaim(keys.INBOX_STREAM, GROUP, consumer, CLAIM_IDLE_MS, count=count)
        except redis.ResponseError as error:
            self._make_group(error)
            return []
        return claimed[1]

    def _read_new(self, consumer: str, count: int, block_ms: int) -> list[Any]:
        block_ms = min(max(1, block_ms), MAX_BLOCK_MS)
        try:
            streams = self._client.xreadgroup(GROUP, consumer, {keys.INBOX_STREAM: ">"}, count=count, block=block_ms)
        except redis.ResponseError as error:
            self._make_group(error)
            return []
        return _entries_of(streams) if streams else []

    def _make_group(self, error: redis.ResponseError) -> None:
        """From the first entry on: what agents reported before any watcher ran is kept too."""
        if not str(error).startswith("NOGROUP"):
            raise error
        try:
            self._client.xgroup_create(keys.INBOX_STREAM, GROUP, id="0", mkstream=True)
        except redis.ResponseError as other:
            if "BUSYGROUP" not in str(other):
                raise
        self._client.expire(keys.INBOX_STREAM, keys.SESSION_TTL_S)

    def _with_records(self, entries: list[InboxEntry]) -> list[InboxEntry]:
        """The stream only names records; their JSON is the session's. One that is gone comes without data."""
        pipeline = self._client.pipeline(transaction=False)
        named = [entry for entry in entries if entry.kind == "record"]
        for entry in named:
            pipeline.hget(keys.records(entry.member), entry.item_id)
        replies = pipeline.execute(raise_on_error=False)
        found = {
            entry.entry_id: reply if isinstance(reply, bytes) else b""
            for entry, reply in zip(named, replies, strict=True)
        }
        return [_placed(entry, found[entry.entry_id]) if entry.kind == "record" else entry for entry in entries]


def _placed(entry: InboxEntry, stored: bytes) -> InboxEntry:
    """A record with what Redis has of it, `place:JSON`."""
    place, _, data = stored.partition(b":")
    return msgspec.structs.replace(entry, data=data, place=number_of(place))


def number_of(digits: bytes) -> int:
    """A place as Redis holds it; 0 for what is none."""
    return int(digits) if digits.isdigit() and len(digits) <= _MOST_PLACE_DIGITS else 0


def _entries_of(streams: Any) -> list[Any]:
    """The entries of the one stream asked for: a map of lists in RESP3, pairs in RESP2."""
    return next(iter(streams.values()))[0] if hasattr(streams, "values") else streams[0][1]


def _is_malformed(fields: dict[bytes, bytes]) -> bool:
    if not fields.keys() >= _FIELDS:
        return True
    try:
        return len(fields[b"id"]) > _MOST_ITEM_ID or not keys.fits(fields[b"member"].decode())
    except UnicodeDecodeError:
        return True


def _read_entry(raw: Any) -> InboxEntry | None:
    entry_id: bytes = raw[0]
    fields: dict[bytes, bytes] = raw[1] or {}
    kind = fields.get(b"kind", b"").decode("utf-8", "replace")
    if kind not in ("record", "event", "close", "forget") or _is_malformed(fields):
        return None
    return InboxEntry(
        entry_id=entry_id.decode(),
        kind=kind,
        member=fields[b"member"].decode(),
        item_id=fields[b"id"],
        data=fields[b"data"],
    )
