"""The server side's view of what is in Redis: who wants work, who waits for it, what agents reported.

Typed wrappers around the function library; nothing else on the server side touches a session's keys. Nothing
read here is believed: who spends money on bodies checks that they hash to the head that was asked for.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec
import redis
from msgspec import Struct

from foldahead import keys, wire
from foldahead.calls import record_id, unpack_body
from foldahead.errors import UnusableRecord
from foldahead_worker.inbox import Inbox
from foldahead_worker.library import load

MAX_EVENTS = 10_000
"""Entries of the live stream of events, about."""
HEAD_BYTES = 32
HEADER_BYTES = HEAD_BYTES + 8 + 1
"""Of a stored body: the head after it, the size of all bodies so far, a flag."""
BODIES_A_READ = 200
RESTORE_TTL_S = 3600
_MOST_DIGITS = 16
RELOAD_ON = "Function not found"
_log = logging.getLogger("foldahead.switchboard")

_STATE = ("inc", "n", "standing", "job", "failed", "failures", "failed_at")
Value = TypeVar("Value")


class Failures(Struct, frozen=True, kw_only=True):
    """Jobs of a session that failed in a row, and how long ago the last of them did."""

    in_a_row: int = 0
    ms_ago: int = 0


NO_FAILURES = Failures()


class Armed(Struct, frozen=True, kw_only=True):
    """A session that is due for a look, as it was when it was seen: `settle_*` compare with that.

    With a `job` it is looked at again: it is at its hard cap and was not when the job was asked for, or
    nothing was heard of the job for a minute.
    """

    member: str
    incarnation: str
    n: int
    standing: wire.Standing
    job: str = ""
    """Cache key of the job under way."""
    failed: str = ""
    """Why the last one failed, when none is under way."""
    failures: int = 0
    """Jobs that failed in a row."""
    failed_at_ms: int = 0
    """When the last of them did, by Redis's clock."""
    overdue_ms: int = 0
    """How long it had wanted a look, by Redis's clock, when it was seen."""
    seen_at_ms: int = 0
    """When it was seen as due, by Redis's clock."""


class Seen(Struct, frozen=True, kw_only=True):
    """A session as it stands, armed or not, and how long ago it published."""

    armed: Armed
    idle_s: float


class Counts(Struct, frozen=True, kw_only=True):
    """What `status` shows of Redis."""

    armed: int
    restores: int
    inbox: int
    inbox_lag: int
    """Entries that no watcher was given yet."""
    inbox_pending: int
    """Entries that a watcher was given and has not done with."""
    events: int


class Switchboard:
    """For one thread or many; all methods raise redis.RedisError when Redis cannot be asked."""

    def __init__(self, client: "redis.Redis") -> None:
        """`client` with bytes replies. The library is loaded when a call finds it missing."""
        self._client: Any = client
        self.inbox = Inbox(client)

    def due(self, limit: int) -> list[Armed]:
        """The sessions whose deadline has come by Redis's clock, the most overdue first, over all shards.

        Members without a state, or with one that this version cannot read, are disarmed and left out, and so
        is what only somebody else can have put there: none of it may stand in the way of the others.
        """
        now_ms = self._now_ms()
        pipeline = self._client.pipeline(transaction=False)
        for shard in range(keys.SHARDS):
            pipeline.zrangebyscore(keys.armed(shard), "-inf", now_ms, start=0, num=limit, withscores=True)
        scored = [
            (max(score, 0.0), shard, name)
            for shard, entries in enumerate(pipeline.execute())
            for name, score in entries
        ]
        scored = sorted(scored)[:limit]
        members = [self._member(name, shard) for _, shard, name in scored]
        overdue_ms = [now_ms - int(score) for score, _, _ in scored]
        known = [(member, overdue) for member, overdue in zip(members, overdue_ms, strict=True) if member]
        states = self._states(member for member, _ in known)
        found = (self._armed(*one, state) for one, state in zip(known, states, strict=True))
        return [msgspec.structs.replace(armed, seen_at_ms=now_ms) for armed in found if armed is not None]

    def _member(self, name: bytes, shard: int) -> str | None:
        """The member of an armed set; None for what cannot be one, which is taken out."""
        member = name.decode("utf-8", "replace")
        if member.encode() == name and keys.fits(member) and keys.shard_of(member) == shard:
            return member
        self._client.zrem(keys.armed(shard), name)
        return None

    def overdue_ms(self) -> int:
        """How long the session that wanted a look first has waited for one, by Redis's clock; 0 when none does."""
        pipeline = self._client.pipeline(transaction=False)
        for shard in range(keys.SHARDS):
            pipeline.zrange(keys.armed(shard), 0, 0, withscores=True)
        scores: list[float] = [entry[1] for entries in pipeline.execute() for entry in entries]
        return max(0, self._now_ms() - int(min(scores))) if scores else 0

    def look(self, member: str) -> Armed | None:
        """A session as it stands, armed or not. None where Redis has no usable state of it."""
        return _read_state(member, self._states([member])[0])

    def settle_job(self, seen: Armed, cache_key: str) -> bool:
        """A job row exists: the session waits for it. Returns whether the session is still as it was seen."""
        return self._settle(seen, "job", cache_key)

    def settle_wait(self, seen: Armed, wait_ms: int) -> bool:
        """Look again after `wait_ms`, unless the session published since. Returns whether it did not."""
        return self._settle(seen, "wait", str(max(0, wait_ms)))

    def settle_drop(self, seen: Armed) -> bool:
        """Nothing to do until the next publish. Returns whether the session is still as it was seen."""
        return self._settle(seen, "drop", "")

    def disarm(self, member: str) -> None:
        """Look at a session no more until it publishes again, whatever its state is."""
        self._client.zrem(keys.armed(keys.shard_of(member)), member)

    def ready(self, member: str, ready: wire.Ready) -> bool:
        """Put a summary at a session's disposal. Returns whether Redis knows the session."""
        return bool(
            self._call(
                "fold_ready",
                (keys.state(member), keys.ready(member)),
                (ready.cache_key, ready.end, wire.encode(ready)),
            )
        )

    def has_ready(self, member: str, cache_key: str) -> bool:
        """Whether a summary is at a session's disposal already."""
        try:
            return bool(self._client.hexists(keys.ready(member), cache_key))
        except redis.ResponseError as error:
            if not _is_wrong_type(error):
                raise
            return False

    def failed(self, member: str, cache_key: str, reason: str, *, counts: bool = True) -> bool:
        """Tell a session that its job failed. Returns whether that job was the one it waits for.

        `counts`: the session rests before it is served again, longer after each failure.
        """
        touched = (keys.state(member), keys.bodies(member), keys.armed(keys.shard_of(member)))
        return bool(self._call("fold_failed", touched, (cache_key, reason, int(counts), member)))

    def wants_nothing(self, member: str) -> bool:
        """Whether a session neither waits for a job nor wants one."""
        due, job = self._hash_fields(member, "due", "job")
        return not due and not job

    def bodies(
        self, member: str, start: int = 0, end: int | None = None
    ) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
        """Bodies of the messages from `start` to before `end`: (start, head before, [(head after, body)]).

        The list ends early where Redis has no more, or one is damaged; an unknown `head before` is empty.
        """
        try:
            return start, self._head_before(member, start), self._read_bodies(member, start, end)
        except redis.ResponseError as error:
            if not _is_wrong_type(error):
                raise
            return start, b"", []

    def _read_bodies(self, member: str, start: int, end: int | None) -> list[tuple[bytes, bytes]]:
        found: list[tuple[bytes, bytes]] = []
        at = start
        while end is None or at < end:
            last = at + BODIES_A_READ if end is None else min(at + BODIES_A_READ, end)
            elements: list[bytes] = self._client.lrange(keys.bodies(member), at, last - 1)
            for element in elements:
                body = unpack_body(element[HEADER_BYTES - 1 : HEADER_BYTES], element[HEADER_BYTES:])
                if body is None:
                    return found
                found.append((element[:HEAD_BYTES], body))
            if at + len(elements) < last:
                break
            at = last
        return found

    def envelope(self, workspace: str, digest: str) -> bytes | None:
        """What is stored as an envelope: to be believed only if it has that digest."""
        try:
            return self._client.get(keys.envelope(workspace, digest))
        except redis.ResponseError as error:
            if not _is_wrong_type(error):
                raise
            return None

    def discard_envelope(self, workspace: str, digest: str) -> None:
        """It is not what its name says: have an agent send it again."""
        self._client.delete(keys.envelope(workspace, digest))

    def discard_bodies(self, member: str) -> bool:
        """The stored bodies do not hash to their heads: have the agent send all of them again."""
        return bool(self._call("fold_discard", (keys.state(member), keys.bodies(member)), ()))

    def restore(
        self,
        member: str,
        standing: wire.Standing | None,
        ready: Sequence[wire.Ready],
        records: Sequence[tuple[int, bytes]],
        failures: Failures = NO_FAILURES,
    ) -> bool:
        """Give back what the database knows of a session. Returns whether Redis knew nothing of it.

        `records` are places and JSON: the places hold, also for what Redis has of them.

        Where it knows the session by now, its own standing stays, and records and summaries are united. With
        nothing given Redis then knows that there is nothing, and an agent that resumes need not wait.
        """
        arguments: list[bytes | str | int] = [
            member,
            b"" if standing is None else wire.encode(standing),
            failures.in_a_row,
            failures.ms_ago,
            len(ready),
            len(records),
        ]
        for summary in ready:
            arguments += [summary.cache_key, summary.end, wire.encode(summary)]
        for place, record in records:
            arguments += [record_id(record), place, record]
        touched = (keys.state(member), keys.ready(member), keys.records(member), keys.RESTORE_SET)
        return bool(self._call("fold_restore", touched, arguments))

    def ask_restores(self, members: Sequence[str]) -> None:
        """Have sessions restored by whoever asks next."""
        if members:
            self._client.sadd(keys.RESTORE_SET, *members)
            self._client.expire(keys.RESTORE_SET, RESTORE_TTL_S)

    def policies(self) -> dict[str, bytes]:
        """The central overrides as agents get them: workspace -> JSON."""
        stored: dict[bytes, bytes] = self._client.hgetall(keys.POLICIES_HASH)
        return {unquote(field.decode("utf-8", "replace")): values for field, values in stored.items()}

    def has_policies(self) -> bool:
        """Whether Redis has any central overrides."""
        return bool(self._client.exists(keys.POLICIES_HASH))

    def put_policies(self, changes: Mapping[str, bytes | None]) -> None:
        """Have agents get these overrides from their next answer on; None: none."""
        pipeline = self._client.pipeline(transaction=False)
        for workspace, values in changes.items():
            if values is None:
                pipeline.hdel(keys.POLICIES_HASH, keys.policy_field(workspace))
            else:
                pipeline.hset(keys.POLICIES_HASH, keys.policy_field(workspace), values)
        pipeline.execute()

    def pop_restores(self, limit: int) -> list[str]:
        """Sessions that an agent asked for and Redis does not know; each is given to one caller."""
        popped: list[bytes] | None = self._client.spop(keys.RESTORE_SET, limit)
        members = (name.decode("utf-8", "replace") for name in popped or ())
        return [member for member in members if keys.fits(member)]

    def add_event(self, event: bytes) -> None:
        """Append one event, JSON, to the live stream, which forgets the oldest."""
        pipeline = self._client.pipeline(transaction=False)
        pipeline.xadd(keys.EVENTS_STREAM, {"event": event}, maxlen=MAX_EVENTS, approximate=True)
        pipeline.expire(keys.EVENTS_STREAM, keys.SESSION_TTL_S)
        pipeline.execute()

    def counts(self) -> Counts:
        """How much is waiting where."""
        pipeline = self._client.pipeline(transaction=False)
        for shard in range(keys.SHARDS):
            pipeline.zcard(keys.armed(shard))
        pipeline.scard(keys.RESTORE_SET)
        pipeline.xlen(keys.EVENTS_STREAM)
        counted: list[int] = pipeline.execute()
        *armed, restores, events = counted
        inbox = self.inbox.counts()
        return Counts(
            armed=sum(armed),
            restores=restores,
            inbox=inbox.entries,
            inbox_lag=inbox.lag,
            inbox_pending=inbox.pending,
            events=events,
        )

    def sessions(self, most: int) -> list[Seen]:
        """Sessions that Redis knows, `most` at most, in no order. For people: reads through all keys."""
        members: list[str] = []
        for key in self._client.scan_iter(match=keys.EVERY_STATE, count=1_000):
            members.append(keys.member_of(key.decode()))
            if len(members) == most:
                break
        now_ms = self._now_ms()
        pipeline = self._client.pipeline(transaction=False)
        for member in members:
            pipeline.hmget(keys.state(member), *_STATE)
            pipeline.hget(keys.state(member), "at_ms")
        told = pipeline.execute()
        found = zip(members, told[::2], told[1::2], strict=True)
        return [
            Seen(armed=armed, idle_s=max(0.0, (now_ms - int(at_ms or now_ms)) / 1000))
            for member, state, at_ms in found
            if (armed := _read_state(member, state)) is not None
        ]

    def _states(self, members: Iterable[str]) -> list[list[bytes | None]]:
        pipeline = self._client.pipeline(transaction=False)
        for member in members:
            pipeline.hmget(keys.state(member), *_STATE)
        replies = pipeline.execute(raise_on_error=False)
        return [_nothing_where_no_hash(reply) for reply in replies]

    def _hash_fields(self, member: str, *names: str) -> list[bytes | None]:
        try:
            return self._client.hmget(keys.state(member), *names)
        except redis.ResponseError as error:
            return _nothing_where_no_hash(error)[: len(names)]

    def _now_ms(self) -> int:
        seconds, micros = self._client.time()
        return seconds * 1000 + micros // 1000

    def _armed(self, member: str, overdue_ms: int, state: list[bytes | None]) -> Armed | None:
        armed = _read_state(member, state)
        if armed is None:
            self._settle_as(member, (state[0] or b"", state[1] or b""), "drop", "", urgent=False)
            return None
        return msgspec.structs.replace(armed, overdue_ms=overdue_ms)

    def _settle(self, seen: Armed, action: str, value: str) -> bool:
        as_seen = (seen.incarnation.encode(), str(seen.n).encode())
        return self._settle_as(seen.member, as_seen, action, value, urgent=seen.standing.forced)

    def _settle_as(self, member: str, seen: tuple[bytes, bytes], action: str, value: str, *, urgent: bool) -> bool:
        touched = (keys.state(member), keys.ready(member), keys.armed(keys.shard_of(member)))
        settled = self._call("fold_settle", touched, (member, *seen, action, value, int(urgent)))
        if settled is None:
            self._client.zrem(touched[-1], member)
        return bool(settled)

    def _head_before(self, member: str, start: int) -> bytes:
        if start == 0:
            return self._client.hget(keys.state(member), "first_head") or b""
        element: bytes | None = self._client.lindex(keys.bodies(member), start - 1)
        return element[:HEAD_BYTES] if element else b""

    def _call(self, function: str, touched: Sequence[str], arguments: Sequence[bytes | str | int]) -> Any:
        """What a function replied; None where a key of the session is of another type, and so not of our making."""

        def call() -> Any:
            return self._client.fcall(function, len(touched), *touched, wire.WIRE_VERSION, *arguments)

        try:
            return self._with_library(call)
        except redis.ResponseError as error:
            if not _is_wrong_type(error):
                raise
            _log.warning("%s: a key of this session is not of foldahead's making: %s", function, touched[0])
            return None

    def _with_library(self, call: Callable[[], Value]) -> Value:
        """A server that was restarted has no library: it is loaded, and the call made once more."""
        try:
            return call()
        except redis.ResponseError as error:
            if RELOAD_ON not in str(error):
                raise
            load(self._client)
            return call()


def _nothing_where_no_hash(reply: Any) -> list[bytes | None]:
    """A state, or that of no session where the key is something else. Raises any other error."""
    if not isinstance(reply, Exception):
        return reply
    if not _is_wrong_type(reply):
        raise reply
    return [None] * len(_STATE)


def _is_wrong_type(error: Exception) -> bool:
    return isinstance(error, redis.ResponseError) and "WRONGTYPE" in str(error)


def _read_state(member: str, state: list[bytes | None]) -> Armed | None:
    incarnation, n, standing, job, failed, failures, failed_at_ms = state
    if standing is None or n is None or incarnation is None:
        return None
    try:
        decoded = wire.decode(standing, wire.Standing)
        number = int(n)
    except (UnusableRecord, ValueError):
        return None
    if str(number).encode() != n:  # it could never be settled
        return None
    return Armed(
        member=member,
        incarnation=incarnation.decode("utf-8", "replace"),
        n=number,
        standing=decoded,
        job=(job or b"").decode("utf-8", "replace"),
        failed=(failed or b"").decode("utf-8", "replace"),
        failures=_count(failures),
        failed_at_ms=_count(failed_at_ms),
    )


def _count(field: bytes | None) -> int:
    return int(field) if field is not None and field.isdigit() and len(field) < _MOST_DIGITS else 0
