"""The calls of the Redis function library that an agent makes: their arguments, and what the replies mean.

docs/wire.md lists keys, arguments and replies; the library is `foldahead.lua` on the server side.
"""

import hashlib
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from foldahead import keys, wire
from foldahead.core.record import decode_record
from foldahead.errors import UnusableRecord

MAX_BODY_BYTES = 8 * 1024 * 1024
"""The largest body that Redis takes, and the largest that a server unpacks."""
MAX_BODIES = 100_000
MAX_RECORD_BYTES = 256 * 1024
MAX_EVENT_BYTES = 16 * 1024
COMPRESS_FROM_BYTES = 512
RAW, ZLIB = b"\0", b"\1"

Argument = bytes | str | int


class Call(Struct, frozen=True):
    """One FCALL: the function, the keys it touches, its arguments."""

    function: str
    keys: tuple[str, ...]
    arguments: tuple[Argument, ...]

    @property
    def command(self) -> tuple[Argument, ...]:
        """The words of the Redis command."""
        return ("FCALL", self.function, len(self.keys), *self.keys, *self.arguments)


class Publish(Struct, frozen=True, kw_only=True):
    """All that one publish of a session carries."""

    member: str
    incarnation: str
    n: int
    """Grows with every call of one incarnation: the older of two calls is told apart by it."""
    standing: bytes
    messages: int
    head: bytes
    due_ms: int | None
    urgent: bool = False
    """At the hard cap: a job that was asked for before that is to hurry."""
    upload: bool
    mark: str = ""
    """Names the set of records that the caller knows; from the last answer."""
    bodies_from: int | None = None
    head_before: bytes = b""
    bodies: Sequence[tuple[bytes, bytes, bytes]] = ()
    """Head after the message, flag, packed body."""
    records: Sequence[tuple[bytes, bytes]] = ()
    """Identity, JSON."""
    envelope: tuple[str, str, bytes] | None = None
    """Workspace, digest and bytes of what the session's requests hold beside messages; no bytes: is it there?"""
    events: Sequence[tuple[int, bytes]] = ()
    """Number within the incarnation, JSON."""
    ready_known: Sequence[str] = ()
    anchors: Sequence[tuple[int, bytes]] = ()
    """Indices of the caller's history and the heads before them: where Redis's bodies may still agree."""


class Reply(Struct, frozen=True, kw_only=True):
    """What Redis answered: the part for the session, and what the next call says back."""

    answer: wire.Answer
    rev: str = ""
    mark: str = ""
    records_told: bool = False
    """Whether `answer.records` lists what Redis has, be it nothing."""
    unusable: tuple[str, ...] = ()
    """What in the reply could not be read, in words: of another wire version, or damaged."""


def publish_call(publish: Publish) -> Call:
    """`fold_publish`: tell how a session stands, hand over what is new, hear what is ready and wanted."""
    member = publish.member
    touched = (
        keys.state(member),
        keys.bodies(member),
        keys.ready(member),
        keys.records(member),
        keys.armed(keys.shard_of(member)),
        keys.INBOX_STREAM,
        keys.POLICIES_HASH,
        keys.HINT_LIST,
    )
    fixed: list[Argument] = [
        wire.WIRE_VERSION,
        member,
        publish.incarnation,
        publish.n,
        publish.standing,
        publish.messages,
        publish.head,
        "" if publish.due_ms is None else publish.due_ms,
        int(publish.urgent),
        int(publish.upload),
        publish.mark,
        "" if publish.bodies_from is None else publish.bodies_from,
        publish.head_before,
    ]
    lists = (publish.bodies, publish.records, publish.events, publish.ready_known, publish.anchors)
    fixed += map(len, lists)
    for items in (publish.bodies, publish.records, publish.events):
        fixed += _flat(items)
    return Call("fold_publish", touched, (*fixed, *publish.ready_known, *_flat(publish.anchors)))


def envelope_call(workspace: str, digest: str, encoded: bytes) -> Call:
    """`fold_envelope`: hand over an envelope; with no bytes ask whether Redis has it."""
    return Call("fold_envelope", (keys.envelope(workspace, digest),), (wire.WIRE_VERSION, digest, encoded))


def look_call(member: str, rev: str, mark: str, ready_known: Iterable[str]) -> Call:
    """`fold_look`: ask whether anything changed since `rev`. Cheap, changes nothing."""
    touched = (
        keys.state(member),
        keys.bodies(member),
        keys.ready(member),
        keys.records(member),
        keys.POLICIES_HASH,
    )
    return Call("fold_look", touched, (wire.WIRE_VERSION, member, rev, mark, *ready_known))


def resume_call(member: str) -> Call:
    """`fold_resume`: all there is of a session; where Redis has nothing, a watcher is asked to restore it."""
    touched = (
        keys.state(member),
        keys.ready(member),
        keys.records(member),
        keys.POLICIES_HASH,
        keys.RESTORE_SET,
    )
    return Call("fold_resume", touched, (wire.WIRE_VERSION, member))


def forget_call(member: str) -> Call:
    """`fold_forget`: delete what Redis has of a session, and have the database do the same."""
    touched = (
        keys.state(member),
        keys.bodies(member),
        keys.ready(member),
        keys.records(member),
        keys.armed(keys.shard_of(member)),
        keys.RESTORE_SET,
        keys.INBOX_STREAM,
    )
    return Call("fold_forget", touched, (wire.WIRE_VERSION, member))


def close_call(member: str, incarnation: str = "") -> Call:
    """`fold_close`: the session wants no work any more; what waits for a worker is cancelled, what is known stays.

    With an `incarnation`: only where that one published last, so that a process which goes does not stop the next.
    """
    touched = (keys.state(member), keys.armed(keys.shard_of(member)), keys.INBOX_STREAM)
    return Call("fold_close", touched, (wire.WIRE_VERSION, member, incarnation))


def read_reply(reply: Any) -> Reply | None:
    """What `fold_publish`, `fold_look` or `fold_resume` replied; None: nothing changed."""
    if not reply:
        return None
    if len(reply) == 1:
        return Reply(answer=wire.Answer(known=False))
    known, rev, wanted, job, failed, overrides, mark, records, ready, standing, idle_ms = reply
    unusable: list[str] = []
    summaries = [_readable(blob, wire.Ready, unusable) for blob in ready]
    numbered = sorted((int(number), json) for number, _, json in (entry.partition(b":") for entry in records or ()))
    answer = wire.Answer(
        known=bool(known),
        ready=tuple(filter(None, summaries)),
        records=tuple(json for _, json in numbered),
        bodies_from=int(wanted) if wanted else None,
        standing=_readable(standing, wire.Standing, unusable) if standing else None,
        idle_s=int(idle_ms) / 1000,
        job=job.decode(),
        failed=failed.decode("utf-8", "replace"),
        overrides=overrides,
    )
    return Reply(
        answer=answer,
        rev=rev.decode(),
        mark=mark.decode(),
        records_told=isinstance(records, list),
        unusable=tuple(unusable),
    )


def pack_body(body: bytes) -> tuple[bytes, bytes]:
    """Flag and bytes of a body as they are stored: compressed when that makes it smaller by a tenth."""
    if len(body) >= COMPRESS_FROM_BYTES:
        packed = zlib.compress(body, 1)
        if len(packed) < len(body) * 0.9:
            return ZLIB, packed
    return RAW, body


def unpack_body(flag: bytes, stored: bytes) -> bytes | None:
    """The body behind `pack_body`; None when it is damaged or larger than any body may be."""
    if flag == RAW:
        return stored
    if flag != ZLIB:
        return None
    unpacker = zlib.decompressobj()
    try:
        body = unpacker.decompress(stored, MAX_BODY_BYTES)
    except zlib.error:
        return None
    return body if unpacker.eof else None


def record_id(record: bytes) -> bytes:
    """What tells two records apart, 16 bytes: the same fact has the same whenever and wherever it was made.

    Raises `UnusableRecord`.
    """
    identity = msgspec.json.encode(decode_record(record).identity)
    return hashlib.sha256(identity).digest()[:16]


def _readable(blob: bytes, kind: type[wire.Wire], unusable: list[str]) -> wire.Wire | None:
    try:
        return wire.decode(blob, kind)
    except UnusableRecord as error:
        unusable.append(str(error))
        return None


def _flat(rows: Iterable[Iterable[Argument]]) -> list[Argument]:
    return [cell for row in rows for cell in row]
