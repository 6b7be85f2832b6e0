"""Sessions that want work: which are due for a watcher's look, and how a look is settled."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
import redis
from msgspec import Struct

from foldahead import keys, wire
from foldahead.errors import UnusableRecord
from foldahead_worker.calling import Caller, FunctionCall, is_wrong_type, or_where_wrong_type

STATE = ("inc", "n", "standing", "job", "failed", "failures", "failed_at", "ended")
"""The fields that `read_state` reads, in this order."""
_MOST_DIGITS = 16


class Armed(Struct, frozen=True, kw_only=True):
    """A session that is due for a look, as it was when it was seen: settling compares with that.

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
    ended: str = ""
    """How often a job of it failed, or it was closed: another value means that something ended since."""
    overdue_ms: int = 0
    """How long it had wanted a look, by Redis's clock, when it was seen."""
    seen_at_ms: int = 0
    """When it was seen as due, by Redis's clock."""


class Settling(Struct, frozen=True):
    """How the look at a session ended: it waits for a job, for a time, or for its next publish."""

    seen: Armed
    action: Literal["job", "wait", "drop"]
    value: str = ""


def waits_for(seen: Armed, cache_key: str) -> Settling:
    """A job row exists: the session waits for it, also where it published since; not where the job has ended."""
    return Settling(seen, "job", cache_key)


def waits(seen: Armed, wait_ms: int) -> Settling:
    """Look again after so long, unless the session publishes before."""
    return Settling(seen, "wait", str(max(0, wait_ms)))


def rests(seen: Armed) -> Settling:
    """Nothing to do until the next publish."""
    return Settling(seen, "drop")


class ArmedSessions:
    """For one thread or many; all methods raise redis.RedisError when Redis cannot be asked."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._client: Any = caller.client

    def due(self, limit: int) -> list[Armed]:
        """The sessions whose deadline has come by Redis's clock, the most overdue first, over all shards.

        Members without a state, or with one that this version cannot read, are disarmed and left out, and so
        is what only somebody else can have put there: none of it may stand in the way of the others.
        """
        now_ms = self._begin_look()
        scored = self._scored(now_ms, limit)
        members = [self._member(name, shard) for _, shard, name in scored]
        overdue_ms = [now_ms - int(score) for score, _, _ in scored]
        known = [(member, overdue) for member, overdue in zip(members, overdue_ms, strict=True) if member]
        states = self._states(member for member, _ in known)
        found = (self._armed(*one, state) for one, state in zip(known, states, strict=True))
        return [msgspec.structs.replace(armed, seen_at_ms=now_ms) for armed in found if armed is not None]

    def await_hint(self, timeout_s: float) -> None:
        """Wait until a session that wants a look at once says so, or for so long. Hints may be lost."""
        or_where_wrong_type(lambda: self._client.brpop([keys.HINT_LIST], timeout=timeout_s), None)

    def look(self, member: str) -> Armed | None:
        """A session as it stands, armed or not. None where Redis has no usable state of it."""
        return read_state(member, self._states([member])[0])

    def settle(self, settlings: Sequence[Settling]) -> list[bool]:
        """Settle looks, in one exchange. Returns for each whether the session is still as it was seen.

        A newer publish stays armed, whatever the look at an older one came to.
        """
        if not settlings:
            return []
        settled = self._caller.call_all([_call_of(one) for one in settlings])
        for one, reply in zip(settlings, settled, strict=True):
            if reply is None:
                self.disarm(one.seen.member)
        return [bool(reply) for reply in settled]

    def disarm(self, member: str) -> None:
        """Look at a session no more until it publishes again, whatever its state is."""
        self._client.zrem(keys.armed(keys.shard_of(member)), member)

    def wants_nothing(self, member: str) -> bool:
        """Whether a session neither waits for a job nor wants one."""
        due, job = or_where_wrong_type(lambda: self._client.hmget(keys.state(member), "due", "job"), [None, None])
        return not due and not job

    def _begin_look(self) -> int:
        """Redis's clock. Who says from now on that it wants a look is heard after this one."""
        pipeline = self._client.pipeline(transaction=False)
        pipeline.time()
        pipeline.delete(keys.HINT_LIST)
        (seconds, micros), _ = pipeline.execute()
        return seconds * 1000 + micros // 1000

    def _scored(self, now_ms: int, limit: int) -> list[tuple[float, int, bytes]]:
        """Due entries of all shards: score, shard, member."""
        pipeline = self._client.pipeline(transaction=False)
        for shard in range(keys.SHARDS):
            pipeline.zrangebyscore(keys.armed(shard), "-inf", now_ms, start=0, num=limit, withscores=True)
        scored = [
            (max(score, 0.0), shard, name)
            for shard, entries in enumerate(pipeline.execute())
            for name, score in entries
        ]
        return sorted(scored)[:limit]

    def _member(self, name: bytes, shard: int) -> str | None:
        """The member of an armed set; None for what cannot be one, which is taken out."""
        member = name.decode("utf-8", "replace")
        if member.encode() == name and keys.fits(member) and keys.shard_of(member) == shard:
            return member
        self._client.zrem(keys.armed(shard), name)
        return None

    def _states(self, members: Iterable[str]) -> list[list[bytes | None]]:
        pipeline = self._client.pipeline(transaction=False)
        for member in members:
            pipeline.hmget(keys.state(member), *STATE)
        replies = pipeline.execute(raise_on_error=False)
        return [_nothing_where_no_hash(reply) for reply in replies]

    def _armed(self, member: str, overdue_ms: int, state: list[bytes | None]) -> Armed | None:
        armed = read_state(member, state)
        if armed is None:
            # Unless it has published since, and so is another.
            drop = (member, state[0] or b"", state[1] or b"", "drop", "", 0, "")
            if self._caller.call("fold_settle", _touched(member), drop) is None:
                self.disarm(member)
            return None
        return msgspec.structs.replace(armed, overdue_ms=overdue_ms)


def read_state(member: str, state: list[bytes | None]) -> Armed | None:
    """A session from the fields of `STATE`. None for what is no state, or one that this version cannot read."""
    incarnation, n, standing, job, failed, failures, failed_at_ms, ended = state
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
        ended=(ended or b"").decode("utf-8", "replace"),
    )


def _touched(member: str) -> tuple[str, ...]:
    return keys.state(member), keys.ready(member), keys.armed(keys.shard_of(member))


def _call_of(settling: Settling) -> FunctionCall:
    seen = settling.seen
    arguments = (seen.member, seen.incarnation, seen.n, settling.action, settling.value, int(seen.standing.forced))
    return FunctionCall("fold_settle", _touched(seen.member), (*arguments, seen.ended))


def _nothing_where_no_hash(reply: Any) -> list[bytes | None]:
    """A state, or that of no session where the key is something else. Raises any other error."""
    if not isinstance(reply, redis.RedisError):
        return reply
    if not is_wrong_type(reply):
        raise reply
    return [None] * len(STATE)


def _count(field: bytes | None) -> int:
    return int(field) if field is not None and field.isdigit() and len(field) < _MOST_DIGITS else 0
