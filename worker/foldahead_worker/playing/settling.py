"""Waiting where an agent never would: until what a session asked for is ready or has failed, so that runs repeat."""

import time
from typing import Any, Literal

import redis

from foldahead import keys
from foldahead.errors import Unreachable

State = Literal["settled", "armed", "working"]
_EVERY_S = 0.004
_AWAY_S = 0.2
NOBODY_LOOKS_S = 15.0
"""An armed session that is due for so long has no watcher."""


class Settler:
    """Asks Redis how sessions stand. One for each player."""

    def __init__(self, url: str) -> None:
        self._client: Any = redis.Redis.from_url(url)  # pyright: ignore[reportUnknownMemberType]

    def settle(self, member: str, timeout_s: float) -> bool:
        """Wait until no job is under way for a session and no watcher is to look at it now.

        False when `timeout_s` was not enough for a job, or for Redis to come back. Raises Unreachable when no watcher
        looks.
        """
        started_s = armed_s = time.monotonic()
        while (state := self._state_or_away(member)) != "settled":
            now_s = time.monotonic()
            armed_s = armed_s if state == "armed" else now_s
            if now_s - armed_s > NOBODY_LOOKS_S:
                raise Unreachable("no watcher looks at sessions: start `foldahead watch`, or `foldahead up`")
            if now_s - started_s > timeout_s:
                return False
            time.sleep(_EVERY_S)
        return True

    def _state_or_away(self, member: str) -> State | Literal["away"]:
        try:
            return self.state(member)
        except redis.RedisError:
            time.sleep(_AWAY_S)
            return "away"

    def ready(self, member: str) -> frozenset[bytes]:
        """Cache keys of the summaries that are at a session's disposal, whether or not it has heard of them."""
        return frozenset(self._client.hkeys(keys.ready(member)))

    def close(self) -> None:
        """Give the connection back."""
        self._client.close()

    def state(self, member: str) -> State:
        """How a session stands now."""
        pipeline = self._client.pipeline(transaction=True)  # else a job may end in between, for another look
        pipeline.time()
        pipeline.zscore(keys.armed(keys.shard_of(member)), member)
        pipeline.hget(keys.state(member), "job")
        (seconds, micros), due_ms, job = pipeline.execute()
        if job:
            return "working"
        # Due later: a watcher has looked and waits for a reason of its own, say a failure that it tries again.
        now_ms = seconds * 1000 + micros // 1000
        return "armed" if due_ms is not None and due_ms <= now_ms + 1 else "settled"
