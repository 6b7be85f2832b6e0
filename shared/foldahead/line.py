"""One connection to Redis that fails fast, backs off, and says what is wrong once."""

import logging
import random
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any
from urllib.parse import unquote, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.exceptions import OutOfMemoryError, ReadOnlyError
from redis.retry import Retry

from foldahead.calls import Call
from foldahead.errors import Unreachable

CONNECT_TIMEOUT_S = 0.1
SOCKET_TIMEOUT_S = 0.25
"""Both can be set in the URL: `?socket_timeout=1&socket_connect_timeout=1`."""
FIRST_BACKOFF_S = 0.05
LONGEST_BACKOFF_S = 4.0
MAX_WORDS = 300

_log = logging.getLogger("foldahead")

_HINTS = (
    ("Function not found", "the function library is missing; a foldahead watcher or worker loads it"),
    ("FOLDWIRE", "agent and server speak different wire versions"),
    ("Cluster", "this is a Redis Cluster, which foldahead does not support; use a single server"),
    ("MovedError", "this is a Redis Cluster, which foldahead does not support; use a single server"),
)
_OF_ONE_CALL = ("FOLDREFUSED", "WRONGTYPE")


class Line:
    """A connection for one thread. Nothing is retried here, nor waits longer than the socket's timeouts."""

    def __init__(self, url: str) -> None:
        """Raises ValueError when the URL is not one of a Redis server. Does not connect."""
        self._secrets = _secrets_of(url)
        self._client: Any = redis.Redis.from_url(  # pyright: ignore[reportUnknownMemberType]
            url,
            client_name=f"foldahead-agent/{version('foldahead')}",
            retry=Retry(NoBackoff(), 0),
            socket_connect_timeout=CONNECT_TIMEOUT_S,
            socket_timeout=SOCKET_TIMEOUT_S,
            health_check_interval=0,
        )
        self._said: set[str] = set()
        self._failures = 0
        self.tried_at_s = float("-inf")
        self.next_try_s = float("-inf")

    @property
    def is_down(self) -> bool:
        """Whether the last exchange failed."""
        return self._failures > 0

    def exchange(self, calls: Sequence[Call], now_s: float) -> list[Any]:
        """Send calls in one pipeline. A reply is a redis.ResponseError where that call alone was refused.

        Raises `Unreachable` when Redis is away or of no use as it is; `next_try_s` says when to try again.
        """
        self.tried_at_s = now_s
        try:
            pipeline: Any = self._client.pipeline(transaction=False)
            for call in calls:
                pipeline.execute_command(*call.command)
            replies: list[Any] = pipeline.execute(raise_on_error=False)
        except (redis.RedisError, OSError) as error:
            raise self._fail(error, now_s) from error
        for reply in replies:
            if isinstance(reply, Exception) and not _concerns_one_call(reply):
                raise self._fail(reply, now_s) from reply
        if self._failures:
            _log.info("foldahead: Redis is back")
            self._failures = 0
            self._said.clear()
        return replies

    def say_once(self, kind: str, words: str) -> None:
        """Log a warning, once for each kind until Redis is back; secrets of the URL are taken out."""
        if kind not in self._said:
            self._said.add(kind)
            _log.warning("foldahead: %s", self.redacted(words))

    def redacted(self, words: str) -> str:
        """Words of a server, shortened, without user name and password."""
        for secret in self._secrets:
            words = words.replace(secret, "[redacted]")
        return words[:MAX_WORDS]

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _fail(self, error: Exception, now_s: float) -> Unreachable:
        self._client.connection_pool.disconnect()
        backoff_s = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2 ** min(self._failures, 16))
        # Jitter: the agents of a fleet do not all come back in the same instant.
        self.next_try_s = now_s + backoff_s * random.uniform(0.5, 1.0)
        self._failures += 1
        words = f"{type(error).__name__}: {error}"
        hint = next((f" ({hint})" for sign, hint in _HINTS if sign in words), "")
        self.say_once(type(error).__name__ + hint, f"Redis cannot be used, sessions go on without{hint}: {words}")
        return Unreachable(self.redacted(f"Redis cannot be used{hint}: {words}"))


def _concerns_one_call(error: Exception) -> bool:
    """Whether an error reply is about one session's keys or arguments, not about the server."""
    words = str(error)
    if isinstance(error, OutOfMemoryError | ReadOnlyError):
        return False
    return words.startswith(_OF_ONE_CALL) or "script: fold_" in words


def _secrets_of(url: str) -> tuple[str, ...]:
    parts = urlsplit(url)
    raw = [secret for secret in (parts.password, parts.username) if secret]
    return tuple(dict.fromkeys([*raw, *map(unquote, raw)]))
