"""What people look at: how much is waiting where in Redis, and how its sessions stand."""

from typing import Any

import redis
from msgspec import Struct

from foldahead import keys
from foldahead_worker.armed import STATE, Armed, read_state
from foldahead_worker.inbox import Inbox


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


class Figures:
    """Only reads; all methods raise redis.RedisError when Redis cannot be asked."""

    def __init__(self, client: "redis.Redis", inbox: Inbox) -> None:
        """`client` with bytes replies."""
        self._client: Any = client
        self._inbox = inbox

    def counts(self) -> Counts:
        """How much is waiting where."""
        pipeline = self._client.pipeline(transaction=False)
        for shard in range(keys.SHARDS):
            pipeline.zcard(keys.armed(shard))
        pipeline.scard(keys.RESTORE_SET)
        pipeline.xlen(keys.EVENTS_STREAM)
        counted: list[int] = pipeline.execute()
        *armed, restores, events = counted
        inbox = self._inbox.counts()
        return Counts(
            armed=sum(armed),
            restores=restores,
            inbox=inbox.entries,
            inbox_lag=inbox.lag,
            inbox_pending=inbox.pending,
            events=events,
        )

    def overdue_ms(self) -> int:
        """How long the session that wanted a look first has waited for one, by Redis's clock; 0 when none does."""
        pipeline = self._client.pipeline(transaction=False)
        for shard in range(keys.SHARDS):
            pipeline.zrange(keys.armed(shard), 0, 0, withscores=True)
        scores: list[float] = [entry[1] for entries in pipeline.execute() for entry in entries]
        return max(0, self._now_ms() - int(min(scores))) if scores else 0

    def sessions(self, most: int) -> list[Seen]:
        """Sessions that Redis knows, `most` at most, in no order. Reads through all keys."""
        members: list[str] = []
        for key in self._client.scan_iter(match=keys.EVERY_STATE, count=1_000):
            members.append(keys.member_of(key.decode()))
            if len(members) == most:
                break
        now_ms = self._now_ms()
        pipeline = self._client.pipeline(transaction=False)
        for member in members:
            pipeline.hmget(keys.state(member), *STATE)
            pipeline.hget(keys.state(member), "at_ms")
        told = pipeline.execute()
        found = zip(members, told[::2], told[1::2], strict=True)
        return [
            Seen(armed=armed, idle_s=max(0.0, (now_ms - int(at_ms or now_ms)) / 1000))
            for member, state, at_ms in found
            if (armed := read_state(member, state)) is not None
        ]

    def _now_ms(self) -> int:
        seconds, micros = self._client.time()
        return seconds * 1000 + micros // 1000
