"""Whether a session has what it asked for: for `play` and tests, which wait where an agent never would."""

from typing import Any, cast

import redis

from foldahead import keys


def settled(client: "redis.Redis", member: str) -> bool:
    """Whether no job is under way for a session, and no watcher has yet to look at it, now or later; or it rests after
    a failure.

    True only means something once all that was published has arrived (`flush`).
    """
    untyped: Any = client
    pipeline = untyped.pipeline(transaction=True)  # else a job may end, and the session be armed anew, in between
    pipeline.zscore(keys.armed(keys.shard_of(member)), member)
    pipeline.hmget(keys.state(member), "job", "failures")
    pipeline.time()
    score, (job, failures), (seconds, _) = cast(
        "tuple[float | None, tuple[bytes | None, bytes | None], tuple[int, int]]", pipeline.execute()
    )
    rests = failures is not None and score is not None and score > (seconds + 1) * 1000
    return not job and (score is None or rests)
