"""The server side's view of what is in Redis: who wants work, who waits for it, what agents reported.

Typed wrappers around the function library; nothing else on the server side touches a session's keys. Nothing
read here is believed: who spends money on bodies checks that they hash to the head that was asked for.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import redis
from msgspec import Struct

from foldahead import keys, wire
from foldahead.calls import record_id, unpack_body
from foldahead_worker.armed import ArmedSessions
from foldahead_worker.calling import Caller, or_where_wrong_type
from foldahead_worker.figures import Figures
from foldahead_worker.inbox import Inbox

MAX_EVENTS = 10_000
"""Entries of the live stream of events, about."""
HEAD_BYTES = 32
HEADER_BYTES = HEAD_BYTES + 8 + 1
"""Of a stored body: the head after it, the size of all bodies so far, a flag."""
BODIES_A_READ = 200
RESTORE_TTL_S = 3600


class Failures(Struct, frozen=True, kw_only=True):
    """Jobs of a session that failed in a row, and how long ago the last of them did."""

    in_a_row: int = 0
    ms_ago: int = 0


NO_FAILURES = Failures()


class Switchboard:
    """For one thread or many; all methods raise redis.RedisError when Redis cannot be asked."""

    def __init__(self, client: "redis.Redis") -> None:
        """`client` with bytes replies. The library is loaded when a call finds it missing."""
        self._client: Any = client
        self._caller = Caller(client)
        self.inbox = Inbox(client)
        self.armed = ArmedSessions(self._caller)
        self.figures = Figures(client, self.inbox)

    def ready(self, member: str, ready: wire.Ready) -> bool:
        """Put a summary at a session's disposal. Returns whether Redis knows the session."""
        return bool(
            self._caller.call(
                "fold_ready",
                (keys.state(member), keys.ready(member)),
                (ready.cache_key, ready.end, wire.encode(ready)),
            )
        )

    def has_ready(self, member: str, cache_key: str) -> bool:
        """Whether a summary is at a session's disposal already."""
        return or_where_wrong_type(lambda: bool(self._client.hexists(keys.ready(member), cache_key)), otherwise=False)

    def failed(self, member: str, cache_key: str, reason: str, *, counts: bool = True) -> bool:
        """Tell a session that its job failed. Returns whether that job was the one it waits for.

        `counts`: the session rests before it is served again, longer after each failure.
        """
        touched = (keys.state(member), keys.bodies(member), keys.armed(keys.shard_of(member)))
        return bool(self._caller.call("fold_failed", touched, (cache_key, reason, int(counts), member)))

    def bodies(
        self, member: str, start: int = 0, end: int | None = None
    ) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
        """Bodies of the messages from `start` to before `end`: (start, head before, [(head after, body)]).

        The list ends early where Redis has no more, or one is damaged; an unknown `head before` is empty.
        """

        def read() -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
            found = self._read_bodies(member, start, end)  # first: they may come just now, and their head with them
            return start, self._head_before(member, start), found

        return or_where_wrong_type(read, (start, b"", []))

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
        return or_where_wrong_type(lambda: self._client.get(keys.envelope(workspace, digest)), None)

    def discard_envelope(self, workspace: str, digest: str) -> None:
        """It is not what its name says: have an agent send it again."""
        self._client.delete(keys.envelope(workspace, digest))

    def discard_bodies(self, member: str) -> bool:
        """The stored bodies do not hash to their heads: have the agent send all of them again."""
        return bool(self._caller.call("fold_discard", (keys.state(member), keys.bodies(member)), ()))

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
        return bool(self._caller.call("fold_restore", touched, arguments))

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

    def _head_before(self, member: str, start: int) -> bytes:
        if start == 0:
            return self._client.hget(keys.state(member), "first_head") or b""
        element: bytes | None = self._client.lindex(keys.bodies(member), start - 1)
        return element[:HEAD_BYTES] if element else b""
