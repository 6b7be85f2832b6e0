"""Whether the services are there: for commands that use a stack which others run."""

from typing import Any

import redis

from foldahead_worker.app import make_app
from foldahead_worker.cli.faults import BadInput, Unavailable
from foldahead_worker.server import connect
from foldahead_worker.settings import Settings

LIBRARY = "foldahead"
PING_S = 1.5
HOW = "start them with `foldahead up`, or `foldahead watch` and `foldahead work`"


def reach_redis(settings: Settings) -> "redis.Redis":
    """A client of the Redis that the settings name. Raises BadInput, Unavailable."""
    try:
        client = connect(settings.redis_url)
        client.ping()  # pyright: ignore[reportUnknownMemberType]
    except ValueError as error:
        raise BadInput(f"FOLDAHEAD_REDIS_URL {shown_url(settings.redis_url)}: {error}") from error
    except redis.RedisError as error:
        raise Unavailable(f"Redis at {shown_url(settings.redis_url)} cannot be reached: {error}") from error
    return client


def workers_alive(settings: Settings, *, all_of_them: bool = True) -> list[str]:
    """Names of the workers that answer within two seconds; the first one alone if that is all that is asked."""
    control: Any = make_app(settings).control
    try:
        replies: list[dict[str, Any]] = control.ping(timeout=PING_S, limit=None if all_of_them else 1)
    except Exception as error:  # whatever the transport raises: nobody answered
        raise Unavailable(f"workers cannot be asked through the broker: {type(error).__name__}: {error}") from error
    return sorted(name for reply in replies for name in reply)


def has_library(client: "redis.Redis") -> bool:
    """Whether a server side has loaded our functions."""
    functions: Any = client
    return bool(functions.function_list(LIBRARY))


def expect_stack(settings: Settings) -> None:
    """Raises Unavailable, with what to start, when watcher or worker are not there."""
    client = reach_redis(settings)
    where = shown_url(settings.redis_url)
    try:
        loaded = has_library(client)
    finally:
        client.close()
    if not loaded:
        raise Unavailable(f"no watcher or worker has ever run at {where}: {HOW}")
    if not workers_alive(settings, all_of_them=False):
        raise Unavailable(f"no worker answers at {where}: {HOW}")


def shown_url(url: str) -> str:
    """A URL without what must not be shown."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"
