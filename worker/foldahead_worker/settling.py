"""Whether a session has what it asked for: for `play` and tests, which wait where an agent never would."""

from typing import cast

import redis

from foldahead import keys

def settled(client: "redis.Redis", member: str) -> bool:
    """Whether no job is under way for a session, and no watcher has yet to look at it, now or later.

    True only means something once all that was published has arrived (`flush`).
    """
    pipeline = client.pipeline(transaction=False)
    pipeline.zscore(keys.armed(keys.shard_of(member)), member)
    pipeline.hget(keys.state(member), "job")
    score, job = cast("tuple[float | None, bytes | None]", pipeline.execute())
    return not job and score is None
